package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/ringfence/ringfence/internal/vfs"
)

// sink is where the files of a backup go.
type sink struct {
	put      func(name string, size int64, content io.Reader) error
	files    map[string]file // by name, as they were stored last
	progress func(bytes int64)
	ctx      context.Context //nolint:containedctx // of the one call that the sink is made for
	bytes    int64
}

// File stores a file and notes its checksum.
func (s *sink) File(name string, size int64, content io.Reader) error {
	sum := xxhash.New()
	err := s.put(name, size, io.TeeReader(&counted{io.LimitReader(content, size), s}, sum))
	s.files[name] = file{name, size, fmt.Sprintf("%016x", sum.Sum64())}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}

// counted tells how far a copy got, and ends it with its context.
type counted struct {
	io.Reader
	s *sink
}

func (c *counted) Read(b []byte) (int, error) {
	if err := c.s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(b)
	c.s.bytes += int64(n)
	if c.s.progress != nil {
		c.s.progress(c.s.bytes)
	}
	return n, err
}

// archive is a sink that writes an archive; close ends it.
func archive(s *sink, w io.Writer) (closeIt func() error, err error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	now := time.Now()
	buf := make([]byte, 256<<10)
	s.put = func(name string, size int64, content io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: now}); err != nil {
			return err
		}
		_, err := io.CopyBuffer(t, content, buf)
		return err
	}
	return func() error { return errors.Join(t.Close(), z.Close()) }, nil
}

// into makes s store files below a directory, durably but for their names.
func into(s *sink, fsys vfs.FS, below string) {
	buf := make([]byte, 256<<10)
	s.put = func(name string, size int64, content io.Reader) error {
		name = path.Join(below, name)
		if err := fsys.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		n, err := io.CopyBuffer(io.NewOffsetWriter(f, 0), content, buf)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && size > 0 {
			err = f.SyncData()
		}
		return errors.Join(err, f.Close())
	}
}

// syncTree makes the names below a directory durable.
func syncTree(fsys vfs.FS, dir string) error {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() {
			if err := syncTree(fsys, path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return fsys.SyncDir(dir)
}

func (s *sink) text(name string, b []byte) error {
	return s.File(name, int64(len(b)), bytes.NewReader(b))
}
