package back

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/registry"
)

const (
	topicName = "pay"
	keys      = 4
	late      = 30 * time.Second // far more than anything here takes on a machine that stalls
	ttl       = 2 * time.Second
)

// world is a topic whose registry goes back.
type world struct {
	*testing.T
	config ringfence.Config
	past   past
	live   bool // its processes live through it
	said   testlog.Buffer

	client *ringfence.Client // of the process that acts; nil: none is open
	acked  []int             // in the order of their keys
	judges int
	next   int
	member *member // of the group "lived"; nil: none is there
}

func newWorld(t *testing.T, store func(t *testing.T, namespace string) past, log string, live bool) *world {
	t.Helper()
	w := &world{T: t, live: live}
	namespace := unique()
	w.past = store(t, namespace)
	if log == "" {
		log = "file://" + filepath.Join(t.TempDir(), "log")
	}
	w.config = ringfence.Config{Log: log, Registry: w.past.url(), Namespace: namespace, Backends: backends.All(), Logger: w.said.From(slog.LevelInfo)}
	if f, ok := w.past.(*folder); ok && live {
		w.past = &values{f, t, func() *registry.Registry { return w.rf().Registry() }}
	}
	t.Cleanup(func() {
		w.close()
		if t.Failed() {
			t.Logf("it was logged:\n%s", w.said.String())
		}
	})
	return w
}

// open is a process of its own, which does not live through anything.
func (w *world) open() *ringfence.Client {
	w.Helper()
	rf, err := ringfence.Open(w.Context(), w.config)
	must(w, err)
	return rf
}

// rf is the process that acts.
func (w *world) rf() *ringfence.Client {
	w.Helper()
	if w.client == nil {
		w.client = w.open()
	}
	return w.client
}

func (w *world) close() {
	w.leave()
	if w.client != nil {
		must(w, w.client.Close())
		w.client = nil
	}
}

// save keeps the registry as it is; the result brings that back.
func (w *world) save() (back func()) {
	w.Helper()
	if !w.live {
		w.close()
	}
	put := w.past.save()
	return func() {
		w.Helper()
		if !w.live {
			w.close()
		}
		put()
	}
}

// topic makes the topic, with a member that lives through all that comes.
func (w *world) topic(c ringfence.TopicConfig) {
	w.Helper()
	must(w, w.rf().EnsureTopic(w.Context(), topicName, c))
	if w.live && w.member == nil {
		w.member = w.consume(w.rf(), "lived", ringfence.Earliest)
		w.eventually("a member", func() error {
			g, err := w.rf().Admin().DescribeGroup(w.Context(), "lived")
			if err == nil && (len(g.Members) == 0 || len(g.Units) < c.Partitions) {
				err = fmt.Errorf("%+v", g)
			}
			return err
		})
	}
}

// put produces n records, one after the other, over the keys.
func (w *world) put(n int) { w.Helper(); w.putBy(w.rf(), n) }

func (w *world) putBy(rf *ringfence.Client, n int) {
	w.Helper()
	for range n {
		must(w, w.try(rf))
	}
}

// try produces the next record.
func (w *world) try(rf *ringfence.Client) error {
	i := w.next
	w.next++
	m := ringfence.Message{Key: fmt.Append(nil, i%keys), Value: fmt.Append(nil, i)}
	_, err := rf.Produce(w.Context(), topicName, m)
	if err == nil {
		w.acked = append(w.acked, i)
	}
	return err
}

func (w *world) add(partitions int) {
	w.Helper()
	_, err := w.rf().Admin().AddStorage(w.Context(), topicName, partitions)
	must(w, err)
}

func (w *world) shift() {
	w.Helper()
	_, err := w.rf().Admin().SwitchProduce(w.Context(), topicName)
	must(w, err)
}

func (w *world) describe() api.Topic {
	w.Helper()
	info, err := w.rf().Admin().DescribeTopic(w.Context(), topicName)
	must(w, err)
	return info
}

// begin makes the store, with a topic that has no part in it.
func (w *world) begin() {
	w.Helper()
	must(w, w.rf().EnsureTopic(w.Context(), "other", ringfence.TopicConfig{Partitions: 1}))
}

// retire removes the first storage topic, as soon as that may be.
func (w *world) retire() {
	w.Helper()
	w.eventually("retirement", func() error {
		r, err := w.rf().Admin().RetireStorage(w.Context(), topicName, nil)
		if err == nil && len(r.Retired) == 0 {
			err = fmt.Errorf("%+v", r.Kept)
		}
		return err
	})
}

// empty drops what a storage topic has, as retention would.
func (w *world) empty(index int) {
	w.Helper()
	info := w.describe().Storage[index]
	st, err := w.rf().Log().Topic(w.Context(), info.Name)
	must(w, err)
	for p := range info.Partitions {
		b, err := st.Bounds(w.Context(), p)
		must(w, err)
		must(w, st.Trim(w.Context(), p, b.Next))
	}
	must(w, st.Close())
}

// eventually waits for something that a store or a process does by itself.
func (w *world) eventually(what string, done func() error) {
	w.Helper()
	for limit := time.Now().Add(late); ; time.Sleep(10 * time.Millisecond) { // a store has no signal for all of it
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			w.Fatalf("not within %s: %s: %v", late, what, err)
		}
	}
}

// member is one of a group or of a subscription.
type member struct {
	stop context.CancelFunc
	done chan error
	mu   sync.Mutex
	got  []int // in the order in which it got them
}

func (m *member) handle(_ context.Context, r *ringfence.Message) error {
	n, err := strconv.Atoi(string(r.Value))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, n)
	return err
}

// run starts a member, which stop ends.
func (w *world) run(consume func(context.Context, ringfence.Handler) error) *member {
	ctx, stop := context.WithCancel(w.Context())
	m := &member{stop: stop, done: make(chan error, 1)}
	go func() { m.done <- consume(ctx, m.handle) }() // joined by end
	return m
}

func (m *member) end() error {
	m.stop()
	return <-m.done
}

func (w *world) consume(rf *ringfence.Client, group string, from ringfence.From) *member {
	return w.run(func(ctx context.Context, h ringfence.Handler) error {
		return rf.Consume(ctx, topicName, group, h, &ringfence.ConsumeOptions{From: from, SessionTTL: ttl})
	})
}

// leave ends the member that lives through it.
func (w *world) leave() {
	w.Helper()
	if m := w.member; m != nil {
		w.member = nil
		if err := m.end(); err != nil {
			w.Errorf("the member that lives through it ended with %v", err)
		}
	}
}

// lacks are the acknowledged records from a number on that a member did not get.
func (w *world) lacks(from int, ms ...*member) (missing []int) {
	got := map[int]bool{}
	for _, m := range ms {
		m.mu.Lock()
		for _, n := range m.got {
			got[n] = true
		}
		m.mu.Unlock()
	}
	for _, n := range w.acked {
		if n >= from && !got[n] {
			missing = append(missing, n)
		}
	}
	return missing
}

// await waits until members got all acknowledged records from a number on.
func (w *world) await(from int, ms ...*member) {
	w.Helper()
	w.eventually("delivery of all acknowledged records", func() error {
		for _, m := range ms {
			select {
			case err := <-m.done:
				m.done <- err
				w.Fatalf("the member ended with %v; it lacks %v of %d", err, w.lacks(from, ms...), len(w.acked))
			default:
			}
		}
		if missing := w.lacks(from, ms...); len(missing) > 0 {
			return fmt.Errorf("%d of %d acknowledged records are missing, the first is %d, the last %d", len(missing), len(w.acked), missing[0], missing[len(missing)-1])
		}
		return nil
	})
}

// inOrder checks that the first deliveries of each key's records are in the order in which they were produced.
func (w *world) inOrder(m *member) {
	w.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen, last := map[int]bool{}, map[int]int{}
	for _, n := range m.got {
		if !seen[n] && n < last[n%keys] {
			w.Errorf("record %d came after %d of its key", n, last[n%keys])
		}
		seen[n], last[n%keys] = true, max(n, last[n%keys])
	}
}

// eat lets a group have all acknowledged records from a number on, and be done with them.
func (w *world) eat(group string, begin ringfence.From, from int) *member {
	w.Helper()
	m := w.consume(w.rf(), group, begin)
	w.await(from, m)
	w.caughtUp(group)
	must(w, m.end())
	w.inOrder(m)
	return m
}

// caughtUp waits until a group has nothing left, by its checkpoints.
func (w *world) caughtUp(group string) {
	w.Helper()
	w.eventually("group at the end", func() error {
		g, err := w.rf().Admin().DescribeGroup(w.Context(), group)
		if err == nil && g.Lag != 0 {
			err = fmt.Errorf("lag %d", g.Lag)
		}
		return err
	})
}

// judge looks from outside whether all acknowledged records from a number on are delivered, once more after two
// records were added: to the member that lived through it, and to a new group by a new process.
func (w *world) judge(from int) {
	w.Helper()
	w.put(2)
	if w.member != nil {
		w.await(from, w.member)
		w.inOrder(w.member)
	}
	w.close()
	w.judges++
	w.eat(fmt.Sprintf("judge%d", w.judges), ringfence.Earliest, from)
	w.harmless(w.said.String())
}

var harm = regexp.MustCompile(`(?i)delete (it|that|them|the|those|topic|storage)|topic delete`)

// harmless checks that no line advises to delete what may have acknowledged records.
func (w *world) harmless(text string) {
	w.Helper()
	for line := range strings.Lines(text) {
		if at := harm.FindString(line); at != "" && !strings.Contains(line, "the log has nothing of it") {
			w.Errorf("it was said to %q: %s", at, line)
		}
	}
}

// refused checks that an error is of a kind, names things and advises no harm.
func (w *world) refused(err error, kind error, names ...string) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Fatalf("%v; expected %v", err, kind)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			w.Errorf("%v; expected %q in it", err, name)
		}
	}
	w.harmless(err.Error())
}

// names are the storage topics in the log, sorted.
func (w *world) names() (all []string) {
	w.Helper()
	infos, err := w.rf().Log().Topics(w.Context())
	must(w, err)
	for _, i := range infos {
		all = append(all, i.Name)
	}
	slices.Sort(all)
	return all
}
