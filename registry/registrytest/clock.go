package registrytest

import "time"

// storesTime: a reading tells the store's time of day, from which epochs have their floor. Two
// processes that read one after the other see it go on, and it is about that of this host.
func storesTime(s *suite) {
	a, b := s.open(), s.open()
	s.put(a, "key", "value")
	last := int64(0)
	for i := range 20 {
		snap, err := a.List(s.ctx(), "key")
		s.ok(err)
		if snap.Time < last-1000 { // the clock may be set
			s.Fatalf("reading %d says %d ms, after one that said %d", i, snap.Time, last)
		}
		last = snap.Time
		a, b = b, a
	}
	empty, err := a.List(s.ctx(), "nothing/")
	s.ok(err)
	for _, at := range []int64{last, empty.Time} {
		if off := time.Since(time.UnixMilli(at)).Abs(); off > time.Hour {
			s.Fatalf("the store says that it is %s, %s away from this host", time.UnixMilli(at).UTC(), off)
		}
	}
}
