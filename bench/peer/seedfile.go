package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/ringfence/ringfence/internal/measure"
)

// seedFile is the queue of the file queue document (003) in seeds: under a mutex it reads
// offset.txt, writes the message into a file of its own and syncs it, then writes offset.txt and
// syncs that.
type seedFile struct {
	mu   sync.Mutex
	dir  string
	sync bool
}

func openSeedFile(_ context.Context, _ *measure.Script, o Options) Store {
	s := &seedFile{dir: o.Dir, sync: o.Durability == Sync}
	s.write("offset.txt", []byte("0"))
	return s
}

func (s *seedFile) Appender() Append {
	return func(_ context.Context, values [][]byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, v := range values {
			last := must(strconv.ParseInt(string(must(os.ReadFile(filepath.Join(s.dir, "offset.txt")))), 10, 64))
			s.write(messageName(last+1), v)
			s.write("offset.txt", strconv.AppendInt(nil, last+1, 10))
		}
	}
}

func messageName(offset int64) string { return fmt.Sprintf("%014d.msg", offset) }

func (s *seedFile) write(name string, data []byte) {
	f := must(os.Create(filepath.Join(s.dir, name)))
	_, err := f.Write(data)
	if err == nil && s.sync {
		err = f.Sync()
	}
	check(errors.Join(err, f.Close()))
}
