package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/freeze"
)

// Environment of a producer process.
const (
	producerDir  = "RINGFENCE_TEST_PRODUCER_DIR"
	producerName = "RINGFENCE_TEST_PRODUCER_NAME"
)

// producerKeys are the keys that each producer process has for itself.
const producerKeys = 8

// TestProducerProcess is no test but the body of the producer processes of the one below: it numbers
// the records of its keys until its input ends, and prints how many each key got.
func TestProducerProcess(t *testing.T) {
	dir := os.Getenv(processDir)
	if dir == "" {
		return // an ordinary run
	}
	rf := openDir(t, ringfence.Config{Dir: dir, Durability: ringfence.OS})
	ended := make(chan struct{})
	go func() { // ends with the input
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	n, window := 0, make(chan struct{}, 64)
	for more := true; more; n++ {
		for k := range producerKeys {
			m := ringfence.Message{Key: fmt.Appendf(nil, "%s-%d", os.Getenv(producerName), k), Value: strconv.AppendInt(nil, int64(n), 10)}
			window <- struct{}{}
			rf.ProduceAsync(t.Context(), "a", m, nil, func(_ ringfence.Position, err error) {
				if err != nil {
					fmt.Fprintf(os.Stderr, "%s %s: %v\n", m.Key, m.Value, err) // the test does not read on after a disorder
					t.Error(err)
				}
				<-window
			})
		}
		select {
		case <-ended:
			more = false
		case <-time.After(time.Millisecond): // a load, and no flood
		}
	}
	for range cap(window) {
		window <- struct{}{} // all are acknowledged
	}
	must(t, rf.Close())
	fmt.Printf("sent %d\n", n)
}

// producerProcess is one that runs.
type producerProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func startProducer(t *testing.T, dir string, i int) *producerProcess {
	t.Helper()
	p := &producerProcess{t: t, cmd: spawn(t, "TestProducerProcess", dir, fmt.Sprintf("%s=p%d", producerName, i))}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	must(t, err)
	p.out = bufio.NewScanner(stdout)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must(t, p.cmd.Start())
	return p
}

func (p *producerProcess) signal(s os.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// sleep stops the process at a moment at which others can write: one that is stopped inside of the
// log's lock, or of the registry's, would keep the switch waiting too.
func (p *producerProcess) sleep(rf *ringfence.Client) {
	p.t.Helper()
	const most = 2 * time.Second // for what takes a moment: a process that works is often in there, and is tried often
	for patience, try := 300*time.Millisecond, 0; ; patience, try = min(2*patience, most), try+1 {
		must(p.t, freeze.Process(p.t.Context(), p.cmd.Process))
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		_, err := rf.Produce(ctx, "a", ringfence.Message{Key: []byte("probe"), Value: []byte("probe")})
		if err == nil {
			err = rf.EnsureTopic(ctx, fmt.Sprintf("probe-%d-%d", p.cmd.Process.Pid, try), ringfence.TopicConfig{Partitions: 1})
		}
		cancel()
		if err == nil {
			p.t.Logf("it sleeps at the moment %d, of %d tried", try, try+1)
			return
		}
		p.signal(unix.SIGCONT)
	}
}

// finish ends the process and returns how many records each of its keys got.
func (p *producerProcess) finish() int {
	p.t.Helper()
	must(p.t, p.stdin.Close())
	sent := -1
	for p.out.Scan() {
		if n, ok := strings.CutPrefix(p.out.Text(), "sent "); ok {
			var err error
			if sent, err = strconv.Atoi(n); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if err := p.cmd.Wait(); err != nil || sent < 0 {
		p.t.Fatalf("a producer ended with %v, having sent %d", err, sent)
	}
	return sent
}

// Topics grow while four processes produce to them, of which one is stopped before each switch and
// goes on after it, when others have long written to the next storage topic. A group with fewer and
// with more members than partitions gets every record once, and each key in order.
func TestAProducerThatSleepsOverASwitchKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for members, counts := range map[int][]int{2: {7, 10}, 3: {2, 10, 20}, 6: {4, 8, 24}} {
		t.Run(fmt.Sprint(counts), func(t *testing.T) {
			t.Parallel()
			sleepOverSwitches(t, members, counts)
		})
	}
}

func sleepOverSwitches(t *testing.T, members int, counts []int) {
	dir, l := t.TempDir(), newTallies()
	client := func() *ringfence.Client {
		rf := openDir(t, ringfence.Config{Dir: dir, Durability: ringfence.OS})
		return rf
	}
	rf := client()
	l.rf = rf
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: counts[0]}))
	var last atomic.Int64 // the newest storage topic that a record came from
	handle := func(ctx context.Context, m *ringfence.Message) error {
		if string(m.Key) == "probe" {
			return nil
		}
		if s := int64(m.Storage); s > last.Load() {
			last.Store(s)
		}
		return l.handle(ctx, m)
	}
	for i := range members {
		defer l.memberWith(t, client(), fmt.Sprintf("m%d", i), handle)()
	}
	var producers []*producerProcess
	for i := range 4 {
		producers = append(producers, startProducer(t, dir, i))
	}
	l.wait(t, 500)
	for i, partitions := range counts[1:] {
		sleeper := producers[i]
		sleeper.sleep(rf)
		grow(t, rf, partitions)
		l.waitMore(t, 500) // from the others
		sleeper.signal(unix.SIGCONT)
		l.waitMore(t, 500)
	}
	total := 0
	for _, p := range producers {
		total += producerKeys * p.finish()
	}
	l.wait(t, total)
	if int(last.Load()) != len(counts)-1 || l.count() != total {
		t.Errorf("%d records of %d, the last ones from storage topic %d", l.count(), total, last.Load())
	}
}
