package consumer

import "sync"

// slabValues is how many values are allocated at once. A kept value keeps the memory of its slab, 8 KiB of
// ringfence.Message: that many fill what the allocator gives for them, with the word that it adds.
const slabValues = 46

// Slab allocates values for records, several at a time. Its zero value is ready, and its methods may be
// called concurrently.
type Slab[T any] struct{ slabs sync.Pool }

// Take returns a zero value that has no other user.
func (s *Slab[T]) Take() *T {
	slab, _ := s.slabs.Get().(*[]T)
	if slab == nil || len(*slab) == 0 {
		fresh := make([]T, slabValues)
		slab = &fresh
	}
	v := &(*slab)[0]
	*slab = (*slab)[1:]
	s.slabs.Put(slab)
	return v
}
