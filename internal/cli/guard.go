package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// guard watches over the directories that a client works in. Files that are open live on when
// somebody removes the directory, or puts another in its place: everything would seem to work,
// and nobody would ever see it again.
type guard struct {
	places []place
}

// place is a directory, as it was at the start.
type place struct {
	dir string
	was fs.FileInfo
}

// guardEvery is how often a guard looks.
const guardEvery = time.Second

// newGuard notes the directories of the stores, which are open. Stores elsewhere have none.
func (a *app) newGuard() *guard {
	g := &guard{}
	for _, s := range []struct{ given, part string }{{a.global.log, "log"}, {a.global.registry, "registry"}} {
		dir := a.global.data
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
			g.places = append(g.places, place{dir, info})
		}
	}
	return g
}

// check is the error of the first directory that is not what it was. What can't be looked at for
// another reason is left to the stores.
func (g *guard) check() error {
	for _, p := range g.places {
		switch now, err := os.Stat(p.dir); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s was removed while it was in use; nothing done since then is kept: %w", p.dir, fault.Unavailable)
		case err == nil && !os.SameFile(p.was, now):
			return fmt.Errorf("%s was replaced by another directory while it was in use; start again to work in that one: %w", p.dir, fault.Unavailable)
		case err != nil:
			continue
		}
		if _, err := os.Stat(filepath.Join(p.dir, "FORMAT")); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s was emptied while it was in use; nothing done since then is kept: %w", p.dir, fault.Unavailable)
		}
	}
	return nil
}

// watch looks until ctx ends, and calls lost with the first error.
func (g *guard) watch(ctx context.Context, lost func(error)) {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := g.check(); err != nil {
			lost(err)
			return
		}
	}
}
