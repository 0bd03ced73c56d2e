package core

import "testing"

func TestWhatLiesBeyondTheEndIsNotBelieved(t *testing.T) {
	t.Parallel()
	s, seq := owner(), uint64(1)
	var journal []Record
	read := func(kind Kind, key string, partition int32, offset int64, round int) {
		seq++
		r := Record{Kind: kind, By: s.cfg.Tenure, Seq: seq, Key: []byte(key), ID: ID{Origin{Partition: partition, Offset: offset}, round}, Reason: Attempts}
		journal = append(journal, r)
		s.Read(int64(seq), &r)
	}
	verdict := func(key string, partition int32, offset int64, want Verdict) {
		t.Helper()
		if got := s.Admit([]byte(key), Origin{Partition: partition, Offset: offset}); got != want {
			t.Errorf("offset %d of partition %d, key %s: verdict %d; expected %d", offset, partition, key, got, want)
		}
		s.Left(Origin{Partition: partition, Offset: offset})
	}
	read(Known, "a", 0, 4, 0)
	read(Known, "a", 0, 12, 0) // beyond the end, which is 10
	read(Known, "a", 1, 12, 0)
	read(Park, "b", 0, 7, 0)
	read(Done, "b", 0, 7, 0)
	read(Park, "b", 0, 8, 0)
	read(Known, "b", 0, 10, 0)
	read(Known, "c", 0, 9, 0)
	read(Dead, "d", 0, 11, 0)
	end := Origin{Offset: 10}
	if b := s.Beyond(end); b != (Beyond{Finished: 3, Parked: 1, Highest: 12}) {
		t.Errorf("beyond the end lies %+v", b)
	}
	s.Bound(end)
	bound := s.Effects()
	if a, ok := bound[len(bound)-1].(Append); !ok || len(a.Entries) != 1 || a.Entries[0].Kind != Ends || a.Entries[0].ID.Origin != end {
		t.Errorf("it is written down as %+v", bound)
	}
	check := func() {
		t.Helper()
		verdict("a", 0, 12, Direct)
		verdict("a", 1, 12, Past) // of another partition
		verdict("b", 0, 8, Past)  // it is parked
		verdict("b", 0, 10, Divert)
		verdict("c", 0, 9, Past)
		verdict("c", 0, 10, Direct)
		if n := s.Torn(); n != 1 {
			t.Errorf("%d records can't be told from those that come; expected that of key d", n)
		}
		if n := s.Beyond(end).Finished; n != 0 {
			t.Errorf("%d keys are known beyond the end still", n)
		}
	}
	check()
	read(Ends, "", 0, end.Offset, 0)
	check()
	s = owner() // an heir, who asks nobody for the end
	for i := range journal {
		s.Read(int64(i+1), &journal[i])
	}
	check()
	read(Park, "d", 0, 11, 1) // it is redriven, and takes nothing for finished by that
	check()
	read(Done, "d", 0, 11, 1)
	if n := s.Torn(); n != 0 {
		t.Errorf("%d records can't be told from those that come; expected none", n)
	}
	verdict("d", 0, 11, Direct)
	read(Park, "e", 0, 11, 0) // the partition has grown
	verdict("e", 0, 11, Past)
	if n := s.Torn(); n != 0 {
		t.Error("what was parked since is held for something else")
	}
}
