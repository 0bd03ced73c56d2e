package kafkalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
)

// A broker that knows the seal refuses an append for its size, and another one that is asked for the
// limit may not know it yet.
func TestAnAppendIsNotInvalidBecauseABrokerIsLate(t *testing.T) {
	t.Parallel()
	_, h := retained(t, driver.TopicConfig{})
	p := h.s.parts[0]
	b, answer := send(t, h, "a") // the broker of this topic knows no limit that explains the refusal
	if p.outcome(b, kerr.MessageTooLarge) {
		t.Fatalf("it was given up at once: %v", <-answer)
	}
	if _, err := h.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.rest()
	if err := <-answer; errors.Is(err, fault.Invalid) {
		t.Errorf("its caller was told: %v", err)
	}
}

// private is a cluster that a test may hurt, and a topic of one partition for each order of its
// brokers: each of them leads two.
func private(t *testing.T) (*testserver.Server, *kafkaLog, *handle) {
	t.Helper()
	server := testserver.Private(t, "kafka_cluster")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t.Context(), Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("test-%x.", rand.Uint32())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	// What is answered late by brokers that have just begun may have been done.
	available(t, func() error {
		err := l.CreateTopic(t.Context(), driver.TopicConfig{Name: "t", Partitions: 6})
		if errors.Is(err, fault.Exists) {
			return nil
		}
		return err
	})
	var h *handle
	available(t, func() error {
		topic, err := l.OpenTopic(t.Context(), "t")
		h, _ = topic.(*handle)
		return err
	})
	return server, l, h
}

// available calls do again while brokers are away or slow, for two minutes.
func available(t *testing.T, do func() error) {
	t.Helper()
	for begun := time.Now(); ; {
		err := do()
		if err == nil {
			return
		}
		if time.Since(begun) > 2*time.Minute || !errors.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
}

// One that is stopped has not heard of the seal, and could lead without it when it goes on.
func TestASealOfAClusterWaitsForABrokerThatMayLead(t *testing.T) {
	t.Parallel()
	server, _, h := private(t)
	s := h.s
	for i := range s.parts { // the leaders are there, and the markers stored
		available(t, func() error {
			_, err := s.parts[i].probe(t.Context())
			return err
		})
	}
	stopped := int32(2)
	broker := server.Part(strconv.Itoa(int(stopped)))
	broker.Freeze()
	begun := time.Now()
	available(t, func() error { // the broker that is asked may be the one that is stopped, and then the next try asks another
		return s.set(t.Context(), map[string]string{maxMessageBytes: "0", compressionType: sealCodec})
	})
	var ends []int64
	available(t, func() (err error) {
		ends, err = s.finalEnds(t.Context())
		return err
	})
	var m topicMeta
	available(t, func() (err error) {
		m, err = s.metaAt(t.Context(), 1)
		return err
	})
	t.Logf("sealed at %v, %v after broker %d was stopped", ends, time.Since(begun), stopped)
	if !slices.Contains(m.offline, stopped) {
		t.Errorf("the ends were told while broker %d, which has not heard of the seal, could be elected", stopped)
	}
	broker.Thaw()
	if err := h.appendOne(t, "late"); !errors.Is(err, fault.Sealed) {
		t.Errorf("an append after the seal: %v", err)
	}
	for i, end := range ends {
		var b driver.Bounds
		available(t, func() (err error) {
			b, err = h.Bounds(t.Context(), i)
			return err
		})
		if b.Next != end || !b.Sealed {
			t.Errorf("partition %d: %+v; it was sealed at %d", i, b, end)
		}
	}
}
