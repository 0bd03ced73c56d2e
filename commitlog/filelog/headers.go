package filelog

import (
	"errors"
	"io/fs"
	"maps"
	"sync"

	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Reads of old offsets and retention look at the headers and sizes of many segments, which don't
// change once the segment is closed. What was read once is kept: at most headerBytes of headers,
// and a size for each file.
const headerBytes = 8 << 20

// headers are the headers and sizes of a topic's segments, by number. mu guards both maps; it is not
// held while a file is read.
type headers struct {
	mu    sync.Mutex
	known map[uint64]*segment.Header
	sizes map[uint64]int64
}

// get is the header of segment n, without its producers: from memory, or by read. A header is good
// for ever, since numbers are not used again.
func (c *headers) get(n uint64, read func() (*segment.Header, error)) (*segment.Header, error) {
	c.mu.Lock()
	h := c.known[n]
	c.mu.Unlock()
	if h != nil {
		return h, nil
	}
	h, err := read()
	if err != nil {
		return nil, err
	}
	slim := *h
	slim.Producers = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[uint64]*segment.Header{}
	}
	if room := headerBytes / (128 + 8*len(h.Bases)); len(c.known) >= room {
		clear(c.known)
	}
	c.known[n] = &slim
	return &slim, nil
}

// size is the size of a closed segment's file; 0 for one that is gone.
func (c *headers) size(n uint64, dir vfs.Dir) (int64, error) {
	c.mu.Lock()
	size, ok := c.sizes[n]
	c.mu.Unlock()
	if ok {
		return size, nil
	}
	info, err := dir.Stat(segmentName(n))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes == nil {
		c.sizes = map[uint64]int64{}
	}
	c.sizes[n] = info.Size()
	return info.Size(), nil
}

// forget drops what is known of the segments below low.
func (c *headers) forget(low uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(n uint64, _ *segment.Header) bool { return n < low })
	maps.DeleteFunc(c.sizes, func(n uint64, _ int64) bool { return n < low })
}
