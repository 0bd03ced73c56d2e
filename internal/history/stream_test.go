package history_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

func TestEventsSurviveAFile(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := history.NewWriter(&file)
	want := []history.Event{
		{Kind: history.Produced, At: 1, Partition: 3, Offset: 9, Key: history.Key([]byte{0xff}), Value: 1 << 63},
		{Kind: history.Committed, At: 2, Began: 1, Member: "a", Incarnation: "i", Unit: 4, Epoch: 5, Outcome: history.Unknown,
			Positions: []protocol.Position{{Storage: 1, Partition: 2, Next: 3, Done: []protocol.Range{{5, 6}}}}},
		{Kind: history.Owned, At: 3, Handoff: true, Reason: "b joined"},
	}
	for _, e := range want {
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	file.WriteString(`{"kind":"start","at":4`) // the line of a killed process
	got, err := readAll(&file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %v\nwant %v", err, got, want)
	}
}

func TestALineThatIsNoEventIsDamage(t *testing.T) {
	t.Parallel()
	if _, err := readAll(strings.NewReader("{}\nnonsense\n")); !errors.Is(err, fault.Corrupt) {
		t.Errorf("got %v", err)
	}
}

func TestReadersPutLinesInOrderWithinTheirWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		w := history.NewWriter(&file)
		times := rapid.SliceOfN(rapid.Int64Range(1, 50), 0, 40).Draw(t, "times")
		for _, at := range times {
			if err := w.Add(history.Event{Kind: history.Produced, At: at}); err != nil {
				t.Fatal(err)
			}
		}
		events, err := readAll(&file)
		if err != nil || len(events) != len(times) {
			t.Fatalf("%d of %d events, %v", len(events), len(times), err)
		}
		for i := 1; i < len(events); i++ {
			if events[i].At < events[i-1].At {
				t.Fatalf("%d after %d", events[i].At, events[i-1].At)
			}
		}
	})
}

func TestClocksThatDisagreeAreNoticed(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := history.NewWriter(&file)
	for at := range int64(3000) {
		if err := w.Add(history.Event{Kind: history.Produced, At: (at + 1) * 1_000_000_000, Offset: at}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(history.Event{Kind: history.Produced, At: 1, Offset: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(&file); !errors.Is(err, fault.Corrupt) {
		t.Errorf("got %v", err)
	}
}

// A call that took seconds is told of when it is answered, behind all that happened meanwhile.
func TestACallThatTookSecondsIsPutWhereItBegan(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := history.NewWriter(&file)
	for i := range int64(20_000) { // four a millisecond
		if err := w.Add(history.Event{Kind: history.Produced, At: i*250_000 + 2, Offset: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(history.Event{Kind: history.Committed, At: 1}); err != nil {
		t.Fatal(err)
	}
	events, err := readAll(&file)
	if err != nil || len(events) != 20_001 || events[0].Kind != history.Committed {
		t.Errorf("%d events, %v; expected 20,001, and the call first", len(events), err)
	}
}

func TestFilesOfSeveralProcessesAreMergedByTime(t *testing.T) {
	t.Parallel()
	whole := begun().process("a", 1, "k", 0, 1).commit("a", 1, next(2)).own("b", 2, next(2)).
		process("b", 2, "k", 2, 3).commit("b", 2, next(4))
	files := make(map[string]*bytes.Buffer)
	for _, name := range []string{"", "a", "b"} {
		files[name] = new(bytes.Buffer)
	}
	for _, e := range whole.events {
		if err := history.NewWriter(files[e.Member]).Add(e); err != nil {
			t.Fatal(err)
		}
	}
	report, err := history.Check(history.Config{}, true, files["b"], files["a"], files[""])
	if err != nil || report.Err() != nil || report.Delivered != 4 {
		t.Errorf("%v\n%s", err, report)
	}
}

func TestKeysOfAnyBytesStayDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "b")
		if bytes.Equal(a, b) != (history.Key(a) == history.Key(b)) {
			t.Fatalf("%x → %q, %x → %q", a, history.Key(a), b, history.Key(b))
		}
	})
	if history.Key(nil) != "" || history.Key([]byte{}) == "" {
		t.Error("only nil is no key")
	}
}

func readAll(r io.Reader) ([]history.Event, error) {
	var events []history.Event
	for reader := history.NewReader(r); ; {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}
