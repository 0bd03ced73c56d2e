package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

// Source is what a backup is made of. The log and the registry lie in one data directory, usually.
type Source struct {
	Log, Registry string // data directories
}

// Options say how. nil: the work is silent.
type Options struct {
	Version  string            // of the program, for people
	Progress func(bytes int64) // called often, with the bytes that were read so far
}

// Save writes a backup to a file that is not there yet, or into a directory when to is one, which must be empty,
// or ends with a slash. A backup that fails leaves nothing. fault.Conflict: something is there already.
func Save(ctx context.Context, from Source, to string, o *Options) (*api.Backup, error) {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir(), errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(to, "/"):
		return saveDir(ctx, from, to, o)
	case err == nil:
		return nil, fmt.Errorf("%s is there already; a backup goes to a new file: name another, or remove it: %w", to, fault.Conflict)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("backup: %w: %w", fault.Invalid, err)
	}
	return saveFile(ctx, from, to, o)
}

// saveFile writes beside the file first, which has its name only once it is whole and durable.
func saveFile(ctx context.Context, from Source, to string, o *Options) (*api.Backup, error) {
	tmp := to + ".partial"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s is there: another backup is under way, or one was interrupted; remove it in the latter case: %w", tmp, fault.Conflict)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: %w: %w", fault.Invalid, err)
	}
	b, err := Stream(ctx, from, f, o)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(tmp, to) // unlike a rename it replaces nothing
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
			return b, errors.Join(os.Rename(tmp, to), syncDir(filepath.Dir(to)))
		}
	}
	if err = errors.Join(err, os.Remove(tmp)); err != nil {
		return nil, err
	}
	return b, syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func saveDir(ctx context.Context, from Source, to string, o *Options) (_ *api.Backup, err error) {
	d, err := vfs.CreateOS(to, 0o700)
	if err != nil {
		return nil, fmt.Errorf("backup: %w: %w", fault.Invalid, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := mustBeEmpty(d); err != nil {
		return nil, err
	}
	s := newSink(ctx, o)
	into(s, d, ".")
	m, err := collect(ctx, from, s, o)
	if err != nil {
		return nil, errors.Join(err, removeAll(d, formatFile, "log", "registry", manifestFile))
	}
	for name := range s.files {
		if !slices.ContainsFunc(m.Files, func(f file) bool { return f.Name == name }) && name != formatFile && name != manifestFile {
			err = errors.Join(err, d.Remove(name))
		}
	}
	return &m.Backup, errors.Join(err, syncTree(d, "."))
}

// mustBeEmpty refuses a directory with anything in it (fault.Conflict).
func mustBeEmpty(d vfs.FS) error {
	list, err := d.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() != "lost+found" && e.Name() != staging {
			return fmt.Errorf("%s is not empty, it has %q; name a directory that is empty or not there yet: %w", d.Path("."), e.Name(), fault.Conflict)
		}
	}
	return nil
}

func removeAll(d vfs.FS, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, d.RemoveAll(name))
	}
	return errors.Join(errs...)
}

// Stream writes a backup as an archive. What was written before an error is no backup.
func Stream(ctx context.Context, from Source, w io.Writer, o *Options) (*api.Backup, error) {
	s := newSink(ctx, o)
	end, err := archive(s, w)
	if err != nil {
		return nil, err
	}
	m, err := collect(ctx, from, s, o)
	if err != nil {
		return nil, err
	}
	return &m.Backup, end()
}

func newSink(ctx context.Context, o *Options) *sink {
	s := &sink{files: map[string]file{}, ctx: ctx}
	if o != nil {
		s.progress = o.Progress
	}
	return s
}

// collect copies everything into s, the manifest last.
func collect(ctx context.Context, from Source, s *sink, o *Options) (*manifest, error) {
	if err := s.text(formatFile, []byte(formatText)); err != nil {
		return nil, err
	}
	r := &registryCut{ctx: ctx, dir: from.Registry}
	defer r.close()
	log, err := filelog.Copy(ctx, filelog.Config{Dir: from.Log}, &filelog.CopyOptions{Sink: s, Before: r.open, Cut: r.cut})
	if err != nil {
		return nil, err
	}
	names := log.Files
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if err := s.text(name, r.files[name]); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	m := &manifest{Backup: r.backup}
	b := &m.Backup
	if o != nil {
		b.Version = o.Version
	}
	for _, name := range names {
		m.Files = append(m.Files, s.files[name])
		b.Bytes += s.files[name].Size
	}
	b.Files, b.StorageTopics = len(names), len(log.Topics)
	for i := range log.Topics {
		b.Records += log.Topics[i].Records
		for _, d := range log.Topics[i].Damage {
			b.Damage = append(b.Damage, fmt.Sprintf("%s bytes %d to %d: %s", d.File, d.From, d.To, d.Detail))
		}
	}
	text, err := m.encode()
	if err != nil {
		return nil, err
	}
	return m, s.text(manifestFile, text)
}

// registryCut is the registry at the moment of the cut.
type registryCut struct {
	ctx    context.Context //nolint:containedctx // of the one call
	dir    string
	view   *fileregistry.View
	files  map[string][]byte
	backup api.Backup
}

// patience is how long another process may open the registry meanwhile.
const patience = 5 * time.Second

// open reads the registry while appends still go on, so that the cut has little to read.
func (r *registryCut) open() (err error) {
	r.close()
	ctx, cancel := context.WithTimeout(r.ctx, patience) // with locks of all topics in hand
	defer cancel()
	r.view, err = fileregistry.Look(ctx, fileregistry.Config{Dir: r.dir})
	return err
}

func (r *registryCut) cut() error {
	if err := r.view.Refresh(); err != nil {
		return err
	}
	r.files, r.backup = r.view.Files(), api.Backup{Taken: api.TimeOf(time.Now())}
	for key, value := range r.view.Entries() {
		kind, rest, _ := strings.Cut(key, "/")
		switch {
		case kind == "topics":
			if !bytes.Contains(value, []byte(`"internal":`)) {
				r.backup.Topics++
			}
		case kind == "subscriptions":
			r.backup.Subscriptions++
		case kind == "groups" && strings.HasSuffix(rest, "/meta"):
			r.backup.Groups++
		}
	}
	r.close()
	return nil
}

func (r *registryCut) close() {
	if r.view != nil {
		_ = r.view.Close()
		r.view = nil
	}
}
