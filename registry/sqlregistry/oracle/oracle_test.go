package oracle

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStatementsOnH2InOracleMode(t *testing.T) {
	t.Parallel()
	registrytest.Run(t, registrytest.Harness{Store: newH2, Many: 200, TTL: 3 * time.Second})
}

func TestGroups(t *testing.T) { protocoltest.Run(t, newH2(t)) }

// The premise of the dialect, and a check that H2 behaves as Oracle does in this.
func TestTheEmptyStringIsNull(t *testing.T) {
	t.Parallel()
	db := newH2(t).(h2).connect()
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM DUAL WHERE '' = ''").Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d rows, %v", n, err)
	}
	d := dialect()
	for _, q := range append([]string{d.Upsert(1), d.Now(), d.ForUpdate, d.ForShare, d.Hint}, d.Schema...) {
		if strings.Contains(q, "''") {
			t.Errorf("a statement compares with or stores the empty string: %s", q)
		}
	}
}

func TestAURLIsReadOrRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"oracle://u:secret@h:1521/s?nonsense=1", "oracle://u:secret@h:1521/", "oracle://u:secret@:1521/s", "oracle://h/s", "oracle://u:secret@h/s?ssl=perhaps",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenURL(t.Context(), u, registrydriver.Options{})
		if !errors.Is(err, registry.ErrInvalid) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestADatabaseThatDoesNotAnswerIsUnavailableAndKeepsTheSecret(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("oracle://u:secret@127.0.0.1:1/s")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenURL(t.Context(), u, registrydriver.Options{})
	if !errors.Is(err, registry.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("%v", err)
	}
}
