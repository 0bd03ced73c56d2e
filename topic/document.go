// Package topic makes composite topics of the storage topics of a commit log: an ordered list of
// them, a produce pointer, and a router from keys to partitions. The definition is one document in
// the registry, changed by compare-and-set.
package topic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// MaxNameBytes and MaxNamespaceBytes leave room for each other, and for the index and the topic ID, in
// the names of storage topics.
const (
	MaxNameBytes      = 128
	MaxNamespaceBytes = 48

	maxInternalBytes = 256
	maxNoteBytes     = 1024
)

const format = 1 // of a definition

// State is the state of a topic. Creation and deletion touch the log and the registry; the state
// lets the next process finish what a crash interrupted.
type State string

// The states.
const (
	Creating State = "creating"
	Ready    State = "ready"
	Deleting State = "deleting"
)

// Storage is one storage topic of a composite topic.
type Storage struct {
	Name       string `json:"name"` // in the commit log
	Partitions int    `json:"partitions"`
	K          int    `json:"k"` // how many times the partitions grew over the first storage topic of its line
	// ID is the log's own identity of the storage topic that was made, among those that may get its
	// name; "": the log has none. See ReplacedError.
	ID string `json:"id,omitempty"`
	// Ends are the final ends of its partitions; nil: it was not sealed.
	Ends []int64 `json:"ends,omitempty"`
	// Spent: those after it hold as many bytes as the topic keeps. Its records go by themselves.
	Spent bool `json:"spent,omitempty"`
	// Retired: it is gone, and needed no more. Its place stays; those before it are retired too.
	Retired bool `json:"retired,omitempty"`
	// Clearing: it is retired, and something of it may still be there.
	Clearing bool `json:"clearing,omitempty"`
}

// Document is the stored definition of a topic.
type Document struct {
	Format         int       `json:"format"`
	Name           string    `json:"name"`
	Life           string    `json:"life"` // the ID of this topic among those that had the name
	State          State     `json:"state"`
	Storage        []Storage `json:"storage"`
	Produce        int       `json:"produce"` // index of the storage topic that takes new records
	Router         Router    `json:"router"`
	Hash           Hash      `json:"hash"`
	RetentionBytes int64     `json:"retention_bytes,omitempty"` // of each storage topic, and less of a spent one; 0 keeps all
	RetentionAgeMS int64     `json:"retention_age_ms,omitempty"`
	RetentionForce bool      `json:"retention_force,omitempty"` // drop also what a group has not processed
	// Altering: its storage topics may still have the retention that was before.
	Altering bool `json:"altering,omitempty"`
	// Before is that retention, while the log may still refuse the new one; nil: there is no way back.
	Before  *Retention `json:"retention_before,omitempty"`
	Created int64      `json:"created"`         // Unix ms
	Moved   *Moved     `json:"moved,omitempty"` // nil: it is here
	// Internal is the owner of the topic, as messages name it; "": its users. See CheckPublic.
	Internal string `json:"internal,omitempty"`
	Note     string `json:"note,omitempty"` // of that owner
}

// Config is the configuration of a new topic.
type Config struct {
	Partitions     int    // of the first storage topic; required
	Router         Router // default Modulo
	Hash           Hash   // default XXHash64
	RetentionBytes int64  // of each storage topic; a sealed one goes when those after it hold as many; 0 keeps all
	RetentionAgeMS int64  // 0 keeps all
	RetentionForce bool   // let retention drop what a group has not processed yet
	// Life is the topic ID of storage topics that the log holds without a definition: the new topic
	// takes them up. "": the topic begins empty, with its own ID.
	Life string
	// Internal, when not "", is the owner of the topic, as messages name it. Only the owner changes it,
	// and writes to it, by the storage topic.
	Internal string
	// Note is what the owner writes of the topic. It never changes, and is on the card: the log tells it also when
	// the registry has forgotten the topic.
	Note string
}

func (c Config) withDefaults() Config {
	c.Router, c.Hash = cmp.Or(c.Router, Modulo), cmp.Or(c.Hash, XXHash64)
	return c
}

// Validate reports every fault of a configuration for a topic of the name, as Ensure would.
func (c Config) Validate(name string) error {
	c = c.withDefaults()
	errs := []error{CheckName(name), c.Router.validate(), c.Hash.validate()}
	if c.Router == RangeRouter && c.Hash == Murmur2 {
		errs = append(errs, fmt.Errorf("topic %.40q: router range needs a hash of 64 bits and murmur2 has 31: use router modulo, or another hash: %w", name, fault.Invalid))
	}
	errs = append(errs, checkPartitions(name, c.Partitions), c.Retention().Validate(name))
	if c.Life != "" {
		errs = append(errs, checkLife(c.Life))
	}
	if len(c.Internal) > maxInternalBytes {
		errs = append(errs, fmt.Errorf("topic %.40q: a part of something whose name has %d bytes; at most %d are allowed: %w", name, len(c.Internal), maxInternalBytes, fault.Invalid))
	}
	if len(c.Note) > maxNoteBytes {
		errs = append(errs, fmt.Errorf("topic %.40q: a note of %d bytes; at most %d are allowed: %w", name, len(c.Note), maxNoteBytes, fault.Invalid))
	}
	return errors.Join(errs...)
}

// CheckNamespace checks that name can be a namespace; "" is the default one.
func CheckNamespace(name string) error {
	if len(name) > MaxNamespaceBytes {
		return fmt.Errorf("namespace %.20q has %d bytes; at most %d are allowed: %w", name, len(name), MaxNamespaceBytes, fault.Invalid)
	}
	if name != "" && (commitlog.CheckName(name) != nil || strings.Contains(name, "..")) {
		return fmt.Errorf("namespace %q: expected letters, digits, '_', '-' and single dots, the first a letter or digit: %w", name, fault.Invalid)
	}
	return nil
}

// CheckName checks that name can name a topic.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > MaxNameBytes {
		return fmt.Errorf("topic name %.20q has %d bytes; expected 1 to %d: %w", name, len(name), MaxNameBytes, fault.Invalid)
	}
	if err := commitlog.CheckName(name); err != nil {
		return err
	}
	if strings.Contains(name, "..") {
		return fmt.Errorf("topic name %q contains \"..\"; expected letters, digits, '_', '-' and single dots: %w", name, fault.Invalid)
	}
	return nil
}

// CheckPublic is ErrConflict for an internal topic: its owner knows its records by their places, so no
// other may write to it, grow it, drop from it, or move it away.
func (d *Document) CheckPublic() error {
	if d.Internal == "" {
		return nil
	}
	return fmt.Errorf("topic %q is a part of %s, and nothing else writes to it or changes it: %w", d.Name, d.Internal, fault.Conflict)
}

func (d *Document) same(c Config) bool {
	return d.Storage[0].Partitions == c.Partitions && d.Router == c.Router && d.Hash == c.Hash && (c.Life == "" || c.Life == d.Life)
}

func (d *Document) storageConfig(i int) commitlog.TopicConfig {
	c := commitlog.TopicConfig{
		Name: d.Storage[i].Name, Partitions: d.Storage[i].Partitions,
		RetentionBytes: d.RetentionBytes, RetentionAgeMillis: d.RetentionAgeMS, RetentionForce: d.RetentionForce,
	}
	if d.Storage[i].Spent {
		c.RetentionAgeMillis = 1
	}
	c.Card = d.Card(i).Encode()
	return c
}

func decode(key string, value []byte) (*Document, error) {
	d := new(Document)
	err := json.Unmarshal(value, d)
	if d.Format > format { // then its other fields may mean something else
		return nil, fmt.Errorf("registry key %q: a topic definition of format %d; this version reads format %d: %w", key, d.Format, format, fault.Newer)
	}
	if err == nil {
		err = d.check(key)
	}
	if err != nil {
		return nil, fmt.Errorf("registry key %q: %w: %w", key, fault.Corrupt, err)
	}
	if err := errors.Join(d.Router.validate(), d.Hash.validate()); err != nil {
		return nil, fmt.Errorf("registry key %q: %w", key, err)
	}
	return d, nil
}

// checkNames refuses storage topics of another topic, which a definition has that was copied from another name or
// namespace.
func (d *Document) checkNames(namespace string) error {
	for i, st := range d.Storage {
		name, want := st.Name, StorageName(namespace, d.Name, d.Life, i)
		for strings.HasSuffix(name, movedSuffix) {
			name = strings.TrimSuffix(name, movedSuffix)
		}
		if name != want {
			return fmt.Errorf("registry key %q: storage topic %d is called %.*q; expected %q, which is its own: %w", prefix+d.Name, i, commitlog.MaxNameBytes, st.Name, want, fault.Corrupt)
		}
	}
	return nil
}

// Units is the number of partitions of all storage topics. They are numbered through: those of
// storage topic 0 first.
func (d *Document) Units() int { return d.Unit(len(d.Storage), 0) }

// Unit is the number of a partition of a storage topic.
func (d *Document) Unit(storage, partition int) int {
	for i := range storage {
		partition += d.Storage[i].Partitions
	}
	return partition
}

// Partition returns the storage topic and the partition of a unit; ok is false when there is no such unit.
func (d *Document) Partition(unit int) (storage, partition int, ok bool) {
	for i := range d.Storage {
		if n := d.Storage[i].Partitions; unit >= n {
			unit -= n
			continue
		}
		return i, unit, unit >= 0
	}
	return 0, 0, false
}

// Parents returns the partitions of the storage topic before that can hold earlier records of a
// partition's keys; ok is false for the first storage topic.
func (d *Document) Parents(storage, partition int) (_ Parents, ok bool) {
	if storage == 0 {
		return Parents{}, false
	}
	return d.Router.parents(d.Storage[storage-1], d.Storage[storage], partition), true
}

// End returns the final end of a partition; -1: none yet. A retired one ends at 0: it is finished for
// every group.
func (d *Document) End(storage, partition int) int64 {
	if d.Storage[storage].Retired {
		return 0
	}
	if ends := d.Storage[storage].Ends; partition < len(ends) {
		return ends[partition]
	}
	return -1
}
