package kafkalog

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// send stores a record, and gives back the batch as if its answer had not been looked at yet.
func send(t *testing.T, h *handle, value string) (b *batch, answer chan error) {
	t.Helper()
	l, p := h.s.l, h.s.parts[0]
	const size = 100
	if err := l.budget.take(t.Context(), size); err != nil {
		t.Fatal(err)
	}
	answer = make(chan error, 1)
	w := &pending{req: &driver.AppendRequest{Records: []driver.Record{{Value: []byte(value)}}}, done: func(_ int64, err error) { answer <- err }, size: size, since: time.Now()}
	if !p.produce.push(w) {
		t.Fatal("the partition is busy")
	}
	b, _, _ = p.form()
	for try := 0; ; try++ {
		errs, _ := l.produce(t.Context(), h.s.leader(0), []outgoing{{p, b}})
		switch {
		case errs[0] == nil:
			return b, answer
		case !errors.Is(errs[0], kerr.NotLeaderForPartition) || try == 10: // a broker may tell who leads before it does
			t.Fatal(errs[0])
		}
		sleep(t.Context(), try)
	}
}

func (h *handle) appendOne(t *testing.T, value string) error {
	t.Helper()
	answer := make(chan error, 1)
	h.Append(t.Context(), &driver.AppendRequest{Records: []driver.Record{{Value: []byte(value)}}}, func(_ int64, err error) { answer <- err })
	return <-answer
}

// values are those of partition 0.
func (h *handle) values(t *testing.T) []string {
	t.Helper()
	b, err := h.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for at := b.First; at < b.Next; {
		recs, next, err := h.Read(t.Context(), driver.ReadRequest{Offset: at, MaxBytes: 1 << 20}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			got = append(got, string(r.Value))
		}
		at = next
	}
	return got
}

// A leader that has stored a batch and is deposed while it waits for the replicas answers
// NOT_LEADER_OR_FOLLOWER, and the next leader has the batch.
func TestADeposedLeadersBatchIsStoredOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, seal bool
		want      error // of its caller
	}{
		"sent again as it is": {},
		"given up":            {old: true, want: fault.Unknown},
		"meets a seal":        {seal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, h := retained(t, driver.TopicConfig{})
			p := h.s.parts[0]
			b, answer := send(t, h, "a")
			if c.old {
				b.items[0].since = time.Now().Add(-time.Hour)
			}
			if p.outcome(b, kerr.NotLeaderForPartition) != c.old {
				t.Fatal("it was given up at once, or not when it should be")
			}
			want := []string{"a", "b"}
			if c.seal {
				if _, err := h.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = want[:1]
			}
			p.rest()
			if err := <-answer; !errors.Is(err, c.want) {
				t.Errorf("its caller got %v; expected %v", err, c.want)
			}
			if err := h.appendOne(t, "b"); (err != nil) != c.seal {
				t.Errorf("the next append: %v", err)
			}
			if got := h.values(t); !slices.Equal(got, want) {
				t.Errorf("there are %q; want %q", got, want)
			}
		})
	}
}

func TestWhichAnswersLeaveABatchInDoubt(t *testing.T) {
	t.Parallel()
	for _, doubt := range []error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.KafkaStorageError, kerr.NotEnoughReplicasAfterAppend,
		kerr.RequestTimedOut, kerr.UnknownServerError, kerr.DuplicateSequenceNumber, errNoAnswer, errors.New("connection reset"),
	} {
		if !maybeStored(doubt) {
			t.Errorf("after %v the batch counts as absent", doubt)
		}
	}
	for _, absent := range []error{kerr.NotEnoughReplicas, kerr.MessageTooLarge, kerr.TopicAuthorizationFailed, kerr.UnknownTopicID, kerr.OutOfOrderSequenceNumber, errNoLeader} {
		if maybeStored(absent) {
			t.Errorf("after %v the batch counts as stored, maybe", absent)
		}
	}
}

// An answer that names a place before the first is none: nobody is told that a record stands there.
func TestAnAcknowledgementOfNoPlaceIsNone(t *testing.T) {
	t.Parallel()
	answer := kmsg.NewProduceResponseTopicPartition()
	answer.BaseOffset = math.MinInt64 + 7
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, answer)
	resp := kmsg.NewPtrProduceResponse()
	resp.Topics = append(resp.Topics, topic)
	if at, err := answerFor(resp, &partition{s: &store{kafkaName: "t"}}); !errors.Is(err, errNoAnswer) {
		t.Errorf("a place of %d: %v", at, err)
	}
}
