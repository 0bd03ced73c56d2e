package subscription

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/memtest"
	"github.com/ringfence/ringfence/registry"
)

const sound = `{"format":1,"name":"x","state":"ready","topic":"t","order":"key","from":"earliest",` +
	`"retry":{"initial_ms":1000,"max_ms":60000,"hold_ms":-1,"max_attempts":10},"dead_letters":"block",` +
	`"sets":[{"set":0,"id":"abcdefg2","shards":4,"state":"active"}],"created":1}`

func decoded(value string) (*Document, error) {
	return decodeDocument(registry.Entry{Key: prefix + "x", Value: []byte(value)})
}

// turned is a definition in the middle of a reshard, after an earlier one; reset one in the middle of a reset.
var (
	turned = strings.NewReplacer(
		`[{"set":0,"id":"abcdefg2","shards":4,"state":"active"}]`,
		`[{"set":0,"id":"abcdefg2","shards":4,"state":"retired"},{"set":3,"id":"abcdefg3","shards":2,"state":"closing","since":5,"pause_ms":7},`+
			`{"set":4,"id":"abcdefg4","shards":3,"state":"active","since":5}]`).Replace(sound)
	reset = strings.Replace(turned, `"active","since":5`, `"active","since":5,"starts":[-1,7,0],"shed":true`, 1)
)

func TestDocumentIsReadInEachState(t *testing.T) {
	t.Parallel()
	d, err := decoded(reset)
	if err != nil {
		t.Fatal(err)
	}
	was, closing := d.Closing()
	if d.Set().ID != "abcdefg4" || !closing || was.ID != "abcdefg3" || d.Before().Set().ID != "abcdefg3" || d.Life() != "abcdefg2" || len(d.Serving()) != 2 {
		t.Errorf("it is read as %+v", d)
	}
	if as := d.As(was); as.Set().ID != "abcdefg3" || as.Before().Set().ID != "abcdefg2" || as.Life() != d.Life() || as.Group() != "x..abcdefg3" {
		t.Errorf("its last set but one is %+v", as)
	}
	set := d.Set()
	for p, want := range []int64{-1, 7, 0, -1} {
		if at, ok := set.Start(p); ok != (want >= 0) || ok && at != want {
			t.Errorf("it begins at %d, %t in partition %d; expected %d", at, ok, p, want)
		}
	}
}

func TestDamagedDocumentIsNamed(t *testing.T) {
	t.Parallel()
	for whole, changes := range map[string]map[string]string{
		sound: {
			`"shards":4`:             `"shards":1099511627776`,
			`"shards":4,`:            `"shards":0,`,
			`"abcdefg2"`:             `"abc"`,
			`"active"`:               `"passive"`,
			`"state":"ready"`:        `"state":"\u001b[2J"`,
			`"dead_letters":"block"`: `"dead_letters":"hold"`,
			`"order":"key"`:          `"order":"some"`,
			`"from":"earliest"`:      `"from":"-5m"`,
			`"initial_ms":1000`:      `"initial_ms":0`,
			`"max_ms":60000,`:        `"max_ms":31536000001,`,
			`"hold_ms":-1,`:          `"hold_ms":-9223372036854775808,`, // a thousand years when it is turned into a duration
			`"max_attempts":10`:      `"max_attempts":0`,
			`"topic":"t"`:            `"topic":"a..b"`,
			`"name":"x"`:             `"name":"y"`,
			`"sets":[`:               `"sets":[],"none":[`,
			`"set":0`:                `"set":7`,
		},
		turned: {
			`"set":3`:            `"set":0`,
			`"abcdefg4"`:         `"abcdefg3"`,
			`"retired"`:          `"active"`,
			`"state":"closing"`:  `"state":"active"`,
			`"active","since":5`: `"making","since":5`,
			`"shards":2,"state"`: `"shards":1099511627776,"state"`,
			`"since":5}]`:        `"since":5},{"set":5,"id":"abcdefg5","shards":2,"state":"making"}]`,
		},
	} {
		for was, is := range changes {
			damaged := strings.Replace(whole, was, is, 1)
			if damaged == whole {
				t.Fatalf("%s is not in the document", was)
			}
			if d, err := decoded(damaged); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"subscriptions/x"`) || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%s: %+v, %v; expected fault.Corrupt and the name of the key, without escapes", is, d, err)
			}
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(strings.NewReplacer(`"sets":[`, `"endpoint":{"url":"https://h/in","cloudevents":true},"sets":[`).Replace(sound)))
	f.Add([]byte(sound))
	f.Add([]byte(turned))
	f.Add([]byte(reset))
	f.Add([]byte(strings.Replace(sound, `"shards":4`, `"shards":1099511627776`, 1)))
	f.Add([]byte(strings.Replace(sound, `"sets":[`, `"endpoint":{"url":"https://h/in","timeout_ms":5},"sets":[`, 1)))
	f.Fuzz(func(t *testing.T, value []byte) {
		var d *Document
		var err error
		memtest.AtMost(t, 64*len(value)+16<<10, value, func() { d, err = decoded(string(value)) })
		if err != nil {
			if !errors.Is(err, fault.Corrupt) {
				t.Fatalf("%v; expected fault.Corrupt", err)
			}
			return
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decoded(string(b)); err != nil || !reflect.DeepEqual(d, again) {
			t.Fatalf("%s comes back as %+v, %v", b, again, err)
		}
		if n := d.Set().Shards; n < 1 || n > commitlog.MaxPartitions || d.Retry.policy().Max < 0 || d.Retry.policy().Initial <= 0 {
			t.Fatalf("%+v", d)
		}
	})
}

func TestADefinitionOfANewerVersionIsToldFromADamagedOne(t *testing.T) {
	t.Parallel()
	for _, newer := range []string{
		strings.Replace(sound, `"format":1`, `"format":1000`, 1),
		strings.NewReplacer(`"format":1`, `"format":1000`, `"topic":"t"`, `"topic":["t","u"]`).Replace(sound),
	} {
		_, err := decoded(newer)
		if !errors.Is(err, ErrNewer) || !errors.Is(err, ErrDamaged) {
			t.Errorf("%v; expected ErrNewer", err)
		}
		if told := fmt.Sprint(err); !strings.Contains(told, "upgrade this program") || strings.Contains(told, "delet") {
			t.Errorf("%q; expected that it says to upgrade, and nothing of a deletion", told)
		}
	}
	if _, err := decoded(strings.Replace(sound, `"format":1`, `"format":0`, 1)); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) {
		t.Errorf("%v; expected ErrDamaged", err)
	}
}
