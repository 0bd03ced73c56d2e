package ringfence

import (
	"context"
	"errors"
	"math"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Retention bounds what each storage topic of a topic keeps. The zero value keeps all.
type Retention = topic.Retention

// AlterTopicOptions are the options of AlterTopic.
type AlterTopicOptions struct {
	DryRun bool // only say what would be done
	// Estimate is the result of a dry run. What is due to go is taken from it, and not found out again.
	Estimate *RetentionChange
	// Life and From, when not empty, are what is meant to be changed: ErrNotFound when the name has another
	// topic by now, ErrConflict when that has another retention.
	Life string
	From *Retention
}

// RetentionChange says what a change of a topic's retention did, or would do.
type RetentionChange struct {
	Topic  string    `json:"topic"`
	Before Retention `json:"before"`
	After  Retention `json:"after"`
	Done   bool      `json:"done"` // false: a dry run
	// Drops are the partitions of which something is due to go by the new retention, or would be if no
	// group needed it.
	Drops []RetentionDrop `json:"drops"`
}

// RetentionDrop is what a retention drops of one partition. The numbers are estimates: a log drops in
// units of its own, some of it later, and the bytes are those of samples.
type RetentionDrop struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	First     int64 `json:"first"` // lowest offset that is kept now
	Until     int64 `json:"until"` // what lies below goes
	Records   int64 `json:"records"`
	Bytes     int64 `json:"bytes"`
	// Held are the records that are due too, and stay until each group has processed them.
	Held int64 `json:"held"`
}

// AlterTopic changes the retention of a topic that is there, in all its storage topics and for good.
// Other processes that have it open go by the new one within a minute. Before it changes anything it
// finds out what is due to go then, which the result has; what a group has not processed stays, unless
// r says otherwise. Interrupted, it is finished by the next one, or by a consumer of the topic.
//
// Errors: ErrNotFound for an unknown topic, ErrInvalid for a negative retention, ErrConflict when the
// topic was moved to another log.
func (c *Client) AlterTopic(ctx context.Context, name string, r Retention, opts *AlterTopicOptions) (*RetentionChange, error) {
	t, err := c.topics.Current(ctx, name)
	if err == nil {
		err = errors.Join(t.Document().CheckHere(), t.Document().CheckPublic(), r.Validate(name))
	}
	if err != nil {
		return nil, err
	}
	change := &RetentionChange{Topic: name, Before: t.Document().Retention(), After: r}
	if opts != nil && opts.Estimate != nil {
		change.Drops = opts.Estimate.Drops
	} else if change.Drops, err = c.drops(ctx, t, r); err != nil {
		return nil, err
	}
	if opts != nil && opts.DryRun {
		return change, nil
	}
	var life string
	var from *Retention
	if opts != nil {
		life, from = opts.Life, opts.From
	}
	if _, err := c.catalog.AlterFrom(ctx, name, life, from, r); err != nil {
		return nil, err
	}
	change.Done = true
	return change, t.Refresh(ctx)
}

// drops is what a retention would drop of a topic.
func (c *Client) drops(ctx context.Context, t *topic.Topic, r Retention) ([]RetentionDrop, error) {
	needed, err := c.neededBy(ctx, t)
	if err != nil {
		return nil, err
	}
	drops := []RetentionDrop{}
	doc := t.Document()
	for storage := doc.Left(); storage < len(doc.Storage); storage++ {
		s := doc.Storage[storage]
		log, err := t.Storage(storage)
		if err != nil {
			return nil, err
		}
		parts, err := topic.ExtentsOf(ctx, log, s.Partitions, r)
		if err != nil {
			return nil, err
		}
		total := 0.0
		for _, e := range parts {
			total += e.Bytes
		}
		excess := 0.0
		if r.Bytes > 0 && total > float64(r.Bytes) {
			excess = (total - float64(r.Bytes)) / total
		}
		for p, e := range parts {
			due := max(e.Expired, e.After(excess*e.Bytes))
			until := due
			if !r.Force {
				until = max(e.First, min(due, needed[storage][p]))
			}
			records, bytes := e.Count(e.First, until)
			held, _ := e.Count(until, due)
			if records+held > 0 {
				drops = append(drops, RetentionDrop{storage, p, e.First, until, records, bytes, held})
			}
		}
	}
	return drops, nil
}

// neededBy is the lowest offset of each partition that a group still needs, by storage topic.
func (c *Client) neededBy(ctx context.Context, t *topic.Topic) ([][]int64, error) {
	doc := t.Document()
	needed := make([][]int64, len(doc.Storage))
	for i, s := range doc.Storage {
		needed[i] = make([]int64, s.Partitions)
		for p := range needed[i] {
			needed[i][p] = math.MaxInt64
		}
	}
	groups, err := c.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range groups {
		if info.Topic != doc.Name {
			continue
		}
		g, err := c.reg.Group(info.Name)
		if err != nil {
			return nil, err
		}
		st, err := g.Load(ctx, true)
		if err != nil {
			return nil, err
		}
		for i, s := range doc.Storage {
			for p, at := range registry.LowestNeeded(st.Units, i, s.Partitions) {
				needed[i][p] = min(needed[i][p], at)
			}
		}
	}
	return needed, nil
}
