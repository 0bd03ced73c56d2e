package kafkalog_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog"
)

// stopper is the way to a cluster, for one client. From the moment at which a broker is sent a
// request of some kind it answers nothing, like one that is stopped: connections to it stay open,
// and new ones are taken.
type stopper struct {
	mu      sync.Mutex
	kind    int16  // of the request; -1: none yet
	stopped string // address of the broker; "": none
}

func (s *stopper) arm(kind int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind = kind
}

func (s *stopper) hit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped != ""
}

// swallows says whether what is written to a broker gets lost.
func (s *stopper) swallows(broker string, request []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == "" && len(request) >= 6 && int16(binary.BigEndian.Uint16(request[4:])) == s.kind { //nolint:gosec // a key of the protocol
		s.stopped = broker
	}
	return s.stopped == broker
}

func (s *stopper) dial(ctx context.Context, network, broker string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, broker)
	if err != nil {
		return nil, err
	}
	return &stoppable{Conn: c, s: s, broker: broker}, nil
}

type stoppable struct {
	net.Conn
	s      *stopper
	broker string
}

func (c *stoppable) Write(b []byte) (int, error) {
	if c.s.swallows(c.broker, b) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// What is for the controller goes to a broker that passes it on. When that one is stopped, another is
// asked: nobody waits for it, and nothing fails.
func TestAStoppedBrokerKeepsNoTopicFromBeingMadeOrDeleted(t *testing.T) {
	t.Parallel()
	for _, op := range []struct {
		name string
		kind kmsg.Key
		do   func(context.Context, *commitlog.Log) error
	}{
		{"create", kmsg.CreateTopics, func(ctx context.Context, l *commitlog.Log) error {
			return l.CreateTopic(ctx, commitlog.TopicConfig{Name: "another", Partitions: 3})
		}},
		{"delete", kmsg.DeleteTopics, func(ctx context.Context, l *commitlog.Log) error {
			return l.DeleteTopic(ctx, "t")
		}},
	} {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			cfg := onCluster(t)
			s := &stopper{kind: -1}
			behind := cfg
			behind.Client = append(behind.Client, kgo.Dialer(s.dial))
			l := open(t, behind)
			defer func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := l.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 3}); err != nil {
				t.Fatal(err)
			}
			s.arm(op.kind.Int16())
			if err := op.do(t.Context(), l); err != nil {
				t.Errorf("with a broker that stopped when it was asked: %v", err)
			}
			if !s.hit() {
				t.Error("no broker was stopped")
			}
		})
	}
}
