package kafkalog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/memtest"
)

// eachShape calls f for each kind of answer in each version.
func eachShape(f func(key, version int16, resp kmsg.Response)) {
	for key := range shapeTexts {
		for version := int16(0); version <= kmsg.ResponseForKey(key).MaxVersion(); version++ {
			resp := kmsg.ResponseForKey(key)
			resp.SetVersion(version)
			f(key, version, resp)
		}
	}
}

// fill puts something into each field, lists of n elements.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" && v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(strings.Repeat("x", rand.IntN(200))) //nolint:gosec // for tests
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rand.IntN(100))) //nolint:gosec // for tests
	default:
	}
}

// followed has an answer followed in pieces.
func followed(key, version int16, said []byte, piece int) error {
	var w walk
	if err := w.begin(key, version, len(said)); err != nil {
		return err
	}
	for from := 0; from < len(said); from += piece {
		if err := w.feed(said[from:min(from+piece, len(said))]); err != nil {
			return err
		}
	}
	return w.end()
}

// onWire is an answer as it stands behind its number.
func onWire(key int16, resp kmsg.Response) []byte {
	var b []byte
	if resp.IsFlexible() && key != apiVersions {
		b = append(b, 0)
	}
	return resp.AppendTo(b)
}

// What the client library would write as an answer, of every kind and version, is let through, however it
// is cut, and it is over where it ends.
func TestAnswersOfKafkaAreFollowedHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	eachShape(func(key, version int16, resp kmsg.Response) {
		for n := range 3 {
			fill(reflect.ValueOf(resp).Elem(), n)
			reflect.ValueOf(resp).Elem().FieldByName("Version").SetInt(int64(version))
			if e := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode"); key == apiVersions && e.IsValid() {
				e.SetInt(0)
			}
			said := onWire(key, resp)
			for _, piece := range []int{1, 2, 3, 7, len(said)} {
				if err := followed(key, version, bytes.Clone(said), piece); err != nil {
					t.Errorf("kind %d, version %d, lists of %d, in pieces of %d: %v", key, version, n, piece, err)
				}
			}
			if err := followed(key, version, said[:len(said)-1], 5); err == nil {
				t.Errorf("kind %d, version %d, lists of %d: it is whole without its last byte", key, version, n)
			}
			if resp.IsFlexible() && n == 0 && key != apiVersions { // then its tagged fields are none, which stands at its end
				if err := followed(key, version, append(said[:len(said)-1], 0xff, 0xff, 0xff, 0xff, 0x0f), 5); err == nil {
					t.Errorf("kind %d, version %d: four billion tagged fields are let through", key, version)
				}
			}
		}
	})
}

// bombs are the beginnings of answers of a kind up to each of their outermost lists, with zeros behind it,
// and how many elements these have room for.
func bombs(key, version int16, size int, elements func(least, room int) int) [][]byte {
	s := shapeOf(key)
	w := walk{version: version, flexible: version >= s.flexible}
	var all [][]byte
	var b []byte
	if w.flexible && key != apiVersions {
		b = append(b, 0)
	}
	for _, p := range s.parts {
		if version < p.first || version > p.last {
			continue
		}
		switch {
		case p.kind == fixed:
			b = append(b, make([]byte, p.bytes)...)
		case p.kind == failure:
			b = append(b, 0, 0)
		case p.kind == pause:
			b = append(b, 0, 0, 0, 0)
		case p.kind == list || p.kind == bare:
			least := w.least(p.of, p.kind == bare)
			n := elements(least, size/least)
			bomb := bytes.Clone(b)
			if w.flexible {
				bomb = binary.AppendUvarint(bomb, uint64(n)+1) //nolint:gosec // small
				b = append(b, 1)
			} else {
				bomb = binary.BigEndian.AppendUint32(bomb, uint32(n)) //nolint:gosec // small
				b = append(b, 0, 0, 0, 0)
			}
			all = append(all, append(bomb, make([]byte, size+64)...))
		case w.flexible:
			b = append(b, 0)
		case p.kind == words:
			b = append(b, 0, 0)
		default:
			b = append(b, 0, 0, 0, 0)
		}
	}
	return all
}

// A list that has more elements than there can be is refused, of every kind and version; and of those that
// are let through none takes more memory than the limit says.
func TestWhatAnAnswerOfKafkaTakesIsBounded(t *testing.T) {
	const size = 1 << 20
	eachShape(func(key, version int16, resp kmsg.Response) {
		for _, bomb := range bombs(key, version, size, func(least, room int) int { return room + 100 + 64/least }) {
			if err := followed(key, version, bomb, 4096); err == nil {
				t.Errorf("kind %d, version %d: a list is let through that does not fit", key, version)
			}
		}
		for _, bomb := range bombs(key, version, size, func(_, room int) int { return room }) {
			if err := followed(key, version, bomb, 4096); err != nil {
				t.Errorf("kind %d, version %d: %v", key, version, err)
			}
			if resp.IsFlexible() && key != apiVersions {
				bomb = bomb[1:]
			}
			memtest.AtMost(t, appended*24*size, [2]int16{key, version}, func() { _ = resp.ReadFrom(bomb) })
		}
	})
}

// Tagged fields are hidden from the client library, which would follow them without a bound.
func TestTaggedFieldsOfAnAnswerAreKeptAsBytes(t *testing.T) {
	t.Parallel()
	said := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 4, 1, 2, 3, 4}
	if err := followed(fetchKey, 16, said, 3); err != nil {
		t.Fatal(err)
	}
	if said[13] != 0x7f {
		t.Errorf("the field has the number %d; expected one that nobody knows", said[13])
	}
	var resp kmsg.FetchResponse
	resp.Version = 16
	if err := resp.ReadFrom(said[1:]); err != nil || len(resp.Brokers) != 0 {
		t.Errorf("%d brokers, %v; expected none of either", len(resp.Brokers), err)
	}
	w := walk{}
	if err := w.begin(fetchKey, 16, 1<<30); err != nil {
		t.Fatal(err)
	}
	w.tags = limits.KafkaTags
	if err := w.feed([]byte{1}); err == nil {
		t.Error("tagged fields have no bound")
	}
}

// The client library keeps any pause that a broker asks for: days, if one bit is wrong, in which every call on
// that connection ends at its time-out and nobody says why.
func TestABrokerAsksForNoLongPause(t *testing.T) {
	t.Parallel()
	pausing := map[int16]bool{}
	eachShape(func(key, version int16, resp kmsg.Response) {
		at := reflect.ValueOf(resp).Elem().FieldByName("ThrottleMillis")
		if !at.IsValid() {
			return
		}
		for millis, taken := range map[int64]bool{0: true, -1: true, limits.KafkaPauseMillis: true, limits.KafkaPauseMillis + 1: false, 1 << 30: false} {
			at.SetInt(millis)
			there := reflect.New(reflect.TypeOf(resp).Elem())
			there.Elem().FieldByName("Version").SetInt(int64(version))
			said := onWire(key, resp)
			again, _ := there.Interface().(kmsg.Response)
			rest := said
			if again.IsFlexible() && key != apiVersions {
				rest = said[1:]
			}
			if err := again.ReadFrom(rest); err != nil {
				t.Fatal(err)
			}
			has := there.Elem().FieldByName("ThrottleMillis").Int() == millis // this version has it
			pausing[key] = pausing[key] || has && millis > 0
			if err := followed(key, version, said, 3); has && millis != 0 && (err == nil) != taken {
				t.Errorf("kind %d, version %d: a pause of %d ms: %v", key, version, millis, err)
			}
		}
	})
	for key := range shapeTexts {
		if resp := reflect.ValueOf(kmsg.ResponseForKey(key)).Elem(); resp.FieldByName("ThrottleMillis").IsValid() && !pausing[key] {
			t.Errorf("kind %d was not looked at", key)
		}
	}
}
