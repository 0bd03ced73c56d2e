package shard

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAParkedRecordKeepsTheHeadersThatItHad(t *testing.T) {
	t.Parallel()
	// It came from a dead-letter topic itself, so one of its headers has the name of ours.
	user := commitlog.Record{Key: []byte("k"), Value: []byte("v"), Headers: []commitlog.Header{{Name: headerName, Value: []byte("theirs")}, {Name: "a", Value: []byte("1")}}}
	r := core.Record{Set: "s1", Kind: core.Park, Key: []byte("k"), Timestamp: 7, By: core.Tenure{Epoch: 1}}
	stored := wrap(&r, &user)
	got, back, err := unwrap("s1", &stored)
	if err != nil || !reflect.DeepEqual(*got, r) {
		t.Errorf("%+v became %+v, %v", r, got, err)
	}
	if !bytes.Equal(back.Value, user.Value) || !reflect.DeepEqual(back.Headers, user.Headers) || back.Timestamp != 7 {
		t.Errorf("%+v became %+v", user, back)
	}
	if _, _, err := unwrap("s2", &stored); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a record of another set: %v; want fault.Corrupt", err)
	}
	if _, _, err := unwrap("s1", &commitlog.Record{Key: []byte("k")}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a record that is not ours: %v; want fault.Corrupt", err)
	}
}

func TestWhatIsTooLargeToBeParkedIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rec commitlog.Record
		ok  bool
	}{
		{commitlog.Record{Value: make([]byte, commitlog.MaxRecordBytes-headroom)}, true},
		{commitlog.Record{Value: make([]byte, commitlog.MaxRecordBytes-headroom+1)}, false},
		{commitlog.Record{Headers: make([]commitlog.Header, commitlog.MaxHeaders-1)}, true},
		{commitlog.Record{Headers: make([]commitlog.Header, commitlog.MaxHeaders)}, false},
	} {
		if err := Storable(&c.rec); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.Invalid) {
			t.Errorf("%d bytes, %d headers: %v", len(c.rec.Value), len(c.rec.Headers), err)
		}
	}
}

// TestAFullBatchIsAppendedInParts: what a log takes at once is bounded.
func TestAFullBatchIsAppendedInParts(t *testing.T) {
	t.Parallel()
	big := commitlog.Record{Value: make([]byte, 3<<20)}
	small := commitlog.Record{Value: make([]byte, 10)}
	for _, c := range []struct {
		batch []commitlog.Record
		want  int
	}{
		{[]commitlog.Record{small, small, small}, 3},
		{[]commitlog.Record{big, big, big, small}, 2},
		{[]commitlog.Record{{Value: make([]byte, commitlog.MaxRecordBytes)}, small}, 1},
	} {
		if got := fitting(c.batch); got != c.want {
			t.Errorf("%d of %d records; want %d", got, len(c.batch), c.want)
		}
	}
}
