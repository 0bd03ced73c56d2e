package history

import "testing"

func TestRestJudgesWhatIsStored(t *testing.T) {
	t.Parallel()
	record := func(storage int, offset int64, value uint64) *Event {
		return &Event{Storage: storage, Offset: offset, Value: value}
	}
	read := func(r *Rest, offsets ...int64) {
		for _, o := range offsets {
			r.Read(record(0, o, uint64(o)+1))
		}
	}
	for name, c := range map[string]struct {
		find   func(r *Rest)
		broken Promise
	}{
		"all":                        {func(r *Rest) { read(r, 0, 1, 2, 3) }, ""},
		"and one that was not acked": {func(r *Rest) { read(r, 0, 1, 2, 3, 9) }, ""},
		"not the last":               {func(r *Rest) { read(r, 0, 1, 2) }, ReadAgain},
		"not the first":              {func(r *Rest) { read(r, 1, 2, 3) }, ReadAgain},
		"retention took the first":   {func(r *Rest) { r.Dropped(record(0, 1, 0)); read(r, 1, 2, 3) }, ""},
		"damage":                     {func(r *Rest) { read(r, 0); r.Damaged(record(0, 1, 0), 3); read(r, 3) }, ReadAgain},
		"another record":             {func(r *Rest) { read(r, 0, 1, 2); r.Read(record(0, 3, 77)) }, OneValue},
	} {
		r := new(Rest)
		for o := range int64(4) {
			r.Acked(record(0, o, uint64(o)+1))
		}
		r.Acked(record(1, 5, 9)) // of a storage topic that is retired
		c.find(r)
		got := r.Judge(func(storage int) bool { return storage == 1 })
		if c.broken == "" && got.Violated != 0 || c.broken != "" && (got.Violated != 1 || got.Broken[c.broken] != 1) {
			t.Errorf("%s: %v; expected %q to be broken", name, got, c.broken)
		}
	}
}

func TestReportIncludesAnother(t *testing.T) {
	t.Parallel()
	a, b := new(Report), new(Report)
	b.violate(ReadAgain, nil, "gone")
	a.Include(b)
	if a.Violated != 1 || a.Broken[ReadAgain] != 1 || a.Err() == nil {
		t.Errorf("%v", a)
	}
}
