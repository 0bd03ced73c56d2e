package kafkalog

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
)

// One wrong bit of an ID would have whoever opens the topic told that somebody made it anew, and that it has to
// be deleted; or it would stand in a definition for ever.
func TestOneWrongAnswerIsNoOtherTopic(t *testing.T) {
	t.Parallel()
	honest, _ := retained(t, driver.TopicConfig{})
	want, err := honest.TopicID(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	l := &flips{}
	log, err := open(t.Context(), Config{Brokers: honest.c.Brokers, Prefix: honest.c.Prefix, Client: []kgo.Opt{kgo.Dialer(l.dial)}})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l.mu.Lock()
	l.flip = func(resp kmsg.Response) bool {
		m, ok := resp.(*kmsg.MetadataResponse)
		if !ok || len(m.Topics) == 0 {
			return false
		}
		m.Topics[0].TopicID[9] ^= 0x80
		return true
	}
	l.mu.Unlock()
	if got, err := log.TopicID(t.Context(), "t"); err != nil || got != want || !l.done {
		t.Errorf("the ID is %q, %v, lied %t; expected %q", got, err, l.done, want)
	}
}
