package topic

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// OlderError says that a partition ends before a place that is known: the log was put back to an earlier state. It
// is fault.Corrupt.
type OlderError struct {
	Topic              string
	Storage, Partition int
	Known, End         int64
	By                 string // what knows the place: ByDefinition, or a group
}

// ByDefinition is in OlderError.By when the partition is sealed, and its end is in the definition.
const ByDefinition = "the definition"

func (e *OlderError) Error() string {
	help := "put back a later copy of the log, or go on with what is there by a seek (ringfence group seek)"
	if e.By == ByDefinition { // a unit is finished at that end only
		help = "put back a later copy of the log; a seek does not help, and ringfence tail reads what is there"
	}
	return fmt.Sprintf("topic %q: partition %d of storage topic %d ends at offset %d in the log, and %s knows of offset %d: the log was put back to an earlier state than the registry, and the records between are gone; %s",
		e.Topic, e.Partition, e.Storage, e.End, e.By, e.Known, help)
}

// Is makes it fault.Corrupt.
func (e *OlderError) Is(target error) bool { return target == fault.Corrupt }
