package kafkalog

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// surviving adds to the settings of a topic that is created what makes an ack survive the loss of a
// broker, with all that it had not flushed: a second one has it, or where there is none, the disk.
func (l *kafkaLog) surviving(settings map[string]string, would *kmsg.CreateTopicsResponseTopic) {
	if l.c.Durability == driver.OS {
		return
	}
	if would.ReplicationFactor < 2 {
		settings[flushMessages] = "1"
		return
	}
	for _, c := range would.Configs {
		if c.Name == minInSync && c.Value != nil {
			if n, err := strconv.Atoi(*c.Value); err == nil && n >= 2 {
				return // the cluster asks for as much, or for more
			}
		}
	}
	settings[minInSync] = "2"
}

// tooWeak says why an ack of a topic might not survive the loss of a broker; nil: it does.
func (l *kafkaLog) tooWeak(name string, settings map[string]string, replicas int) error {
	n, err := strconv.Atoi(settings[minInSync])
	if l.c.Durability == driver.OS || settings[flushMessages] == "1" || err == nil && n >= 2 && replicas >= 2 {
		return nil
	}
	return fmt.Errorf("topic %q has %d replicas, min.insync.replicas=%s and no flush.messages=1, so an ack might not survive the loss of one broker: "+
		"set min.insync.replicas=2 on a topic with two replicas or more, or flush.messages=1, or ask for no more (durability os): %w",
		name, replicas, settings[minInSync], fault.Invalid)
}
