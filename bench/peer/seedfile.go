package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// seedFile is the queue of the file queue document (003) in seeds: under a mutex it reads
// offset.txt, writes the message into a file of its own and syncs it, then writes offset.txt and
// syncs that.
type seedFile struct {
	mu   sync.Mutex
	dir  string
	sync bool
}

func openSeedFile(_ context.Context, o Options) (Store, error) {
	s := &seedFile{dir: o.Dir, sync: o.Durability == Sync}
	if err := s.write("offset.txt", []byte("0")); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *seedFile) Appender() (Append, error) {
	return func(_ context.Context, values [][]byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, v := range values {
			if err := s.append(v); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (s *seedFile) append(value []byte) error {
	last, err := s.offset()
	if err != nil {
		return err
	}
	if err := s.write(messageName(last+1), value); err != nil {
		return err
	}
	return s.write("offset.txt", strconv.AppendInt(nil, last+1, 10))
}

func (s *seedFile) offset() (int64, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "offset.txt"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func messageName(offset int64) string { return fmt.Sprintf("%014d.msg", offset) }

func (s *seedFile) write(name string, data []byte) error {
	f, err := os.Create(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && s.sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (s *seedFile) Close() error { return nil }
