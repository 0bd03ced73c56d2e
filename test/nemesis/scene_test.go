package nemesis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
)

// scene is a group at work. All share one store and one log, have their members in the same
// processes, and are judged one by one.
type scene struct {
	namespace string
	group     string
}

// scenes are two groups of one topic, and in another namespace a topic and a group of the same names.
var scenes = []scene{{"", "billing"}, {"", "shipping"}, {"elsewhere", "billing"}}

const (
	topic      = "orders"
	partitions = 8
	keyCount   = 100
	pace       = 5 * time.Millisecond // of each producer
)

func (s scene) String() string { return s.space() + "." + s.group }

// space is the namespace in names of files.
func (s scene) space() string { return cmp.Or(s.namespace, "default") }

// produced is the file with what was acknowledged in a scene's namespace.
func (w *world) produced(s scene) string {
	return filepath.Join(w.dir, "history", "produced-"+s.space()+".jsonl")
}

// produce writes records to the topic of a scene until ctx ends, and to the history which were
// acknowledged.
func (w *world) produce(ctx context.Context, client *ringfence.Client, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := history.NewWriter(file)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		if w.idle.Load() {
			<-ticker.C
			continue
		}
		key, value := fmt.Appendf(nil, "key-%03d", i%keyCount), fmt.Appendf(nil, "value %d", i)
		at, err := client.Produce(context.WithoutCancel(ctx), topic, ringfence.Message{Key: key, Value: value})
		if err != nil {
			return err
		}
		err = out.Add(history.Event{
			Kind: history.Produced, Storage: at.Storage, Partition: at.Partition, Offset: at.Offset,
			Key: history.Key(key), Value: harness.Fingerprint(key, value),
		})
		if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// verdict is what came of a scene.
type verdict struct {
	scene
	*history.Report
	files [][]history.Event // what was judged
}

// judge gives all histories of each scene to the checker.
func (w *world) judge() (all []verdict) {
	w.t.Helper()
	for _, s := range scenes {
		paths, err := filepath.Glob(filepath.Join(w.dir, "history", s.String()+"-*.jsonl"))
		w.must(err)
		v := verdict{scene: s}
		for _, path := range append(paths, w.produced(s)) {
			events, err := accounted(path)
			w.must(err)
			v.files = append(v.files, events)
		}
		v.Report, err = check(v.files)
		w.must(err)
		all = append(all, v)
	}
	return all
}

// check judges the histories of several processes, in which everything was consumed.
func check(files [][]history.Event) (*history.Report, error) {
	var readers []io.Reader
	for _, events := range files {
		lines := new(bytes.Buffer)
		out := history.NewWriter(lines)
		for _, e := range events {
			if err := out.Add(e); err != nil {
				return nil, err
			}
		}
		readers = append(readers, lines)
	}
	return history.Check(history.Config{}, true, readers...)
}

// read is the history in a file, which may still grow.
func read(path string) ([]history.Event, error) {
	var events []history.Event
	err := harness.Read(path, 0, func(e history.Event) { events = append(events, e) })
	return events, err
}
