// Package guard notices when a directory that a program works in is removed or replaced.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Guard watches the directories of a client. Open files live on when a directory is removed or replaced:
// everything would seem to work, and all writes would be lost.
type Guard struct {
	directories []directory
}

// directory is one that is looked after, as it was at the start.
type directory struct {
	dir string
	was fs.FileInfo
}

// every is how often a guard looks.
const every = time.Second

// New notes the directories of a log and a registry, which are open: those of their URLs, or below data
// where no URL is given. Stores elsewhere have none.
func New(data, log, registry string) *Guard {
	g := &Guard{}
	for _, s := range []struct{ given, part string }{{log, "log"}, {registry, "registry"}} {
		dir := data
		if s.given != "" {
			u, err := url.Parse(s.given)
			if err != nil || u.Scheme != "file" {
				continue
			}
			dir = filepath.FromSlash(u.Path)
			if dir == "" {
				dir = filepath.FromSlash(u.Opaque) // file:rel
			}
		}
		dir = filepath.Join(dir, s.part)
		if info, err := os.Stat(dir); err == nil {
			g.directories = append(g.directories, directory{dir, info})
		}
	}
	return g
}

// Check is the error of the first directory that is not what it was. What can't be looked at for
// another reason is left to the stores.
func (g *Guard) Check() error {
	for _, p := range g.directories {
		if err := p.check(); err != nil {
			return fmt.Errorf("%w: %w", err, fault.Unavailable)
		}
	}
	return nil
}

func (p *directory) check() error {
	now, err := os.Stat(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s was removed while it was in use; nothing done since then is kept", p.dir)
	case leadsElsewhere(err):
		return fmt.Errorf("%s was replaced while it was in use, and its name leads nowhere (%w); nothing done since then is kept", p.dir, err)
	case err == nil && !os.SameFile(p.was, now):
		return fmt.Errorf("%s was replaced by another directory while it was in use; start again to work in that one", p.dir)
	}
	return nil
}

// leadsElsewhere says that a name on the way is not what it was: a file, or links that lead nowhere.
func leadsElsewhere(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// Watch looks until ctx ends, and calls lost with the first error.
func (g *Guard) Watch(ctx context.Context, lost func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := g.Check(); err != nil {
			lost(err)
			return
		}
	}
}
