package topic

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// OlderError says that a partition ends before a place that is known, or has grown past it without the record that is
// known there: the log was put back to an earlier state. It is fault.Corrupt.
type OlderError struct {
	Topic              string
	Storage, Partition int
	Known, End         int64  // End is -1 when the partition has grown past Known, the offset of the record
	By                 string // what knows the place: ByDefinition, or a group
}

// ByDefinition is in OlderError.By when the partition is sealed, and its end is in the definition.
const ByDefinition = "the definition"

func (e *OlderError) Error() string {
	help := "put back a later copy of the log, or go on with what is there by a seek (ringfence group seek)"
	if e.By == ByDefinition { // a unit is finished at that end only
		help = "put back a later copy of the log; a seek does not help, and ringfence tail reads what is there"
	}
	has := fmt.Sprintf("ends at offset %d in the log, and %s knows of offset %d", e.End, e.By, e.Known)
	gone := "the records between are gone"
	if e.End < 0 {
		has = fmt.Sprintf("lacks the record at offset %d that %s has processed", e.Known, e.By)
		gone = "has grown since, by records that were never processed"
	}
	return fmt.Sprintf("topic %q: partition %d of storage topic %d %s: the log was put back to an earlier state than the registry, and %s; %s",
		e.Topic, e.Partition, e.Storage, has, gone, help)
}

// Is makes it fault.Corrupt.
func (e *OlderError) Is(target error) bool { return target == fault.Corrupt }
