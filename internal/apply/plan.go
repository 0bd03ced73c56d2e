package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// Store is what a file is applied to: an admin.Client.
type Store interface {
	ListTopics(ctx context.Context) ([]api.TopicSummary, error)
	DescribeTopic(ctx context.Context, name string) (api.Topic, error)
	CreateTopic(ctx context.Context, name string, cfg admin.TopicConfig, opts *admin.CreateTopicOptions) error
	AlterTopic(ctx context.Context, name string, r api.Retention, opts *admin.AlterTopicOptions) (*api.RetentionChange, error)
	ListSubscriptions(ctx context.Context) ([]*api.Subscription, error)
	AlterSubscription(ctx context.Context, name string, change func(*admin.SubscriptionConfig) error, opts *admin.AlterSubscriptionOptions) (*api.Subscription, error)
	CreateSubscription(ctx context.Context, name string, cfg admin.SubscriptionConfig) (*api.Subscription, error)
}

// Action is what is done to one object.
type Action string

// The actions.
const (
	Create    Action = "create"
	Alter     Action = "change"
	Unchanged Action = "unchanged"
)

// Change is what becomes of one topic or subscription.
type Change struct {
	Kind   string  `json:"kind"` // topic or subscription
	Name   string  `json:"name"`
	Action Action  `json:"action"`
	Fields []Field `json:"fields"` // that are set or changed
	// Drops is about how many records are due to go by a new retention.
	Drops int64 `json:"drops"`
	// Unfinished: a change of its retention was interrupted and is finished.
	Unfinished bool `json:"unfinished,omitempty"`
	Done       bool `json:"done"` // nothing was left to do, or it was done

	where string
	step  func(context.Context) error // nil: there is nothing to do
}

// Field is one field of a change.
type Field struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"` // of an object that is there
	To    string `json:"to"`
}

// Plan is what makes everything be as a file says.
type Plan struct {
	File    string    `json:"file"`
	DryRun  bool      `json:"dry_run"`
	Changes []*Change `json:"changes"` // topics first, each in the order of the file

	store Store
	file  *File
}

// Make finds out what differs from a file. Its error has every difference that can't be changed, with its
// line and what to do instead: then nothing of the file may be applied. It changes nothing.
func Make(ctx context.Context, s Store, f *File) (*Plan, error) {
	p := &Plan{File: f.Name, Changes: []*Change{}, store: s, file: f}
	topics, err := s.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	subscriptions, err := s.ListSubscriptions(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, o := range f.Topics {
		c := &Change{Kind: "topic", Name: o.Name, where: o.where(f.Name, "")}
		p.Changes = append(p.Changes, c)
		if i := slices.IndexFunc(topics, func(t api.TopicSummary) bool { return t.Name == o.Name }); i >= 0 {
			errs = append(errs, p.alterTopic(ctx, c, o, &topics[i])...)
			continue
		}
		o.named["partitions"] = o.line // it is shown, also when it is the default
		create(c, o, topicFields(), func(ctx context.Context) error { return s.CreateTopic(ctx, o.Name, o.Config, nil) })
	}
	for _, o := range f.Subscriptions {
		c := &Change{Kind: "subscription", Name: o.Name, where: o.where(f.Name, "")}
		p.Changes = append(p.Changes, c)
		if i := slices.IndexFunc(subscriptions, func(d *api.Subscription) bool { return d.Name == o.Name }); i >= 0 {
			errs = append(errs, p.alterSubscription(c, o, subscriptions[i])...)
			continue
		}
		errs = append(errs, p.checkTopic(o, topics))
		create(c, o, subscriptionFields(), func(ctx context.Context) error {
			_, err := s.CreateSubscription(ctx, o.Name, o.Config)
			return err
		})
	}
	return p, errors.Join(errs...)
}

func create[C any](c *Change, o *Object[C], fields []field[C], step func(context.Context) error) {
	c.Action, c.Fields, c.step = Create, []Field{}, step
	for _, f := range fields {
		if _, ok := o.named[f.name]; ok {
			c.Fields = append(c.Fields, Field{Field: f.name, To: f.shown(f.show(&o.Config))})
		}
	}
}

// differing are the fields that the file has and that are another way in what is there.
func differing[C any](o *Object[C], have *C, fields []field[C]) []Field {
	different := []Field{}
	for _, f := range fields {
		if _, ok := o.named[f.name]; !ok {
			continue
		}
		if from, to := f.show(have), f.show(&o.Config); from != to {
			different = append(different, Field{f.name, f.shown(from), f.shown(to)})
		}
	}
	return different
}

// alterTopic plans what becomes of a topic that is there. Only its retention can be changed.
func (p *Plan) alterTopic(ctx context.Context, c *Change, o *Object[admin.TopicConfig], listed *api.TopicSummary) (errs []error) {
	conflict := func(field, text string) {
		errs = append(errs, fmt.Errorf("%s: topic %q %s: %w", o.where(p.File, field), o.Name, text, fault.Conflict))
	}
	switch {
	case listed.Damaged != "":
		conflict("", "can't be read ("+listed.Damaged+")")
		return errs
	case listed.Moved != nil:
		conflict("", "was moved to another log; take it out of the file, or apply the file there")
		return errs
	}
	info, err := p.store.DescribeTopic(ctx, o.Name)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", c.where, err)}
	}
	last := len(info.Storage[len(info.Storage)-1].Partitions)
	have := admin.TopicConfig{
		Partitions: info.Storage[0].Size, Router: info.Router, Hash: info.Hash, ID: info.ID,
		RetentionBytes: info.Retention.Bytes, RetentionAgeMS: info.Retention.AgeMS, RetentionForce: info.Retention.Force,
	}
	if o.Config.Partitions == last {
		have.Partitions = last // it has grown since it was made
	}
	want := info.Retention
	for _, f := range differing(o, &have, topicFields()) {
		switch f.Field {
		case "partitions":
			conflict(f.Field, fmt.Sprintf("has %s partitions and can't be given %s in place: \"ringfence topic add-storage %s --partitions %s\" and \"ringfence topic switch-produce %s\" do it, and keep the order of each key",
				f.From, f.To, o.Name, f.To, o.Name))
			continue
		case "router", "hash", "life":
			conflict(f.Field, fmt.Sprintf("has %s %s, and never another (%s); use another name", f.Field, f.From, f.To))
			continue
		case "retention-bytes":
			want.Bytes = o.Config.RetentionBytes
		case "retention-age":
			want.AgeMS = o.Config.RetentionAgeMS
		case "retention-force":
			want.Force = o.Config.RetentionForce
		}
		c.Fields = append(c.Fields, f)
	}
	if len(errs) > 0 {
		return errs
	}
	c.Unfinished = info.Altering
	if len(c.Fields) == 0 && !c.Unfinished {
		c.unchanged()
		return nil
	}
	id, from := info.ID, info.Retention
	estimate, err := p.store.AlterTopic(ctx, o.Name, want, &admin.AlterTopicOptions{DryRun: true})
	if err != nil {
		return []error{fmt.Errorf("%s: %w", c.where, err)}
	}
	for _, d := range estimate.Drops {
		c.Drops += d.Records
	}
	if c.Action = Alter; c.Fields == nil {
		c.Fields = []Field{}
	}
	c.step = func(ctx context.Context) error {
		_, err := p.store.AlterTopic(ctx, o.Name, want, &admin.AlterTopicOptions{Estimate: estimate, ID: id, From: &from})
		return stillThere(err)
	}
	return nil
}

// alterSubscription plans what becomes of a subscription that is there.
func (p *Plan) alterSubscription(c *Change, o *Object[admin.SubscriptionConfig], d *api.Subscription) (errs []error) {
	if d.Damaged != "" {
		return []error{fmt.Errorf("%s: subscription %q can't be read (%s): %w", o.where(p.File, ""), o.Name, d.Damaged, fault.Conflict)}
	}
	have, fields := admin.SubscriptionConfigOf(d), subscriptionFields()
	want, different := have, differing(o, &have, fields)
	for i := range different {
		f := &different[i]
		if f.From == "" {
			f.From = "none"
		}
		conflict := func(text string) {
			errs = append(errs, fmt.Errorf("%s: subscription %q has %s %s, %s: %w", o.where(p.File, f.Field), o.Name, f.Field, f.From, text, fault.Conflict))
		}
		switch f.Field {
		case "shards":
			conflict(fmt.Sprintf("and a file changes no number of shards; use \"ringfence subscription reshard %s --shards %s\"", o.Name, f.To))
		case "from":
			conflict(fmt.Sprintf("and has begun; use \"ringfence subscription reset %s --to %s\"", o.Name, f.To))
		case "topic", "order":
			conflict(fmt.Sprintf("which can't be changed to %s, as its progress and what is parked go by it; use another name", f.To))
		default:
			Copy(&want, &o.Config, f.Field)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if len(different) == 0 {
		c.unchanged()
		return nil
	}
	if err := want.Validate(o.Name); err != nil {
		return []error{fmt.Errorf("%s: %w", o.where(p.File, different[0].Field), err)}
	}
	c.Action, c.Fields, c.step = Alter, different, func(ctx context.Context) error {
		_, err := p.store.AlterSubscription(ctx, o.Name, func(now *admin.SubscriptionConfig) error {
			if *now != have {
				return fmt.Errorf("another process changed it meanwhile; apply the file again: %w", fault.Conflict)
			}
			*now = want
			return nil
		}, &admin.AlterSubscriptionOptions{ID: d.ID})
		return stillThere(err)
	}
	return nil
}

// stillThere makes a conflict of the error that what is changed was deleted meanwhile.
func stillThere(err error) error {
	if errors.Is(err, fault.NotFound) {
		return fmt.Errorf("another process deleted it meanwhile: %v: %w", err, fault.Conflict) //nolint:errorlint // a conflict, and nothing else
	}
	return err
}

func (c *Change) unchanged() { c.Action, c.Fields, c.Done = Unchanged, []Field{}, true }

// checkTopic says whether a new subscription's topic will be there.
func (p *Plan) checkTopic(o *Object[admin.SubscriptionConfig], topics []api.TopicSummary) error {
	name := o.Config.Topic
	for _, t := range topics {
		switch {
		case t.Name != name:
			continue
		case t.Moved != nil:
			return fmt.Errorf("%s: subscription %q: topic %q was moved to another log; apply it there: %w", o.where(p.File, "topic"), o.Name, name, fault.Conflict)
		case t.Internal != "":
			return fmt.Errorf("%s: subscription %q: topic %q is a part of %s, and only topics of users can be delivered: %w", o.where(p.File, "topic"), o.Name, name, t.Internal, fault.Conflict)
		}
		return nil
	}
	if slices.ContainsFunc(p.file.Topics, func(t *Object[admin.TopicConfig]) bool { return t.Name == name }) {
		return nil
	}
	return fmt.Errorf("%s: subscription %q: no topic %q, neither here nor in the file: %w", o.where(p.File, "topic"), o.Name, name, fault.NotFound)
}

// Drops is about how many records go when the plan is carried out.
func (p *Plan) Drops() (n int64) {
	for _, c := range p.Changes {
		n += c.Drops
	}
	return n
}

// Apply carries the plan out, and says in each change what was done. What is done stays when a later step fails; the
// next plan finds the rest. ErrConflict: another process has changed something meanwhile.
func (p *Plan) Apply(ctx context.Context) error {
	steps := 0
	for _, c := range p.Changes {
		if c.step == nil {
			continue
		}
		if err := c.step(ctx); err != nil {
			return fmt.Errorf("%s: %w; %d of the changes before it were made; apply the file again to make the rest", c.where, err, steps)
		}
		c.Done = true
		steps++
	}
	if steps == 0 {
		return nil
	}
	now, err := Make(ctx, p.store, p.file)
	if errors.Is(err, fault.Conflict) || errors.Is(err, fault.NotFound) {
		return fmt.Errorf("another process changed the same meanwhile: %w", err)
	}
	if err != nil {
		return fmt.Errorf("all changes were made, and could not be looked at: %w", err)
	}
	var other []string
	for _, c := range now.Changes {
		if c.Action != Unchanged {
			other = append(other, c.Kind+" "+c.Name)
		}
	}
	if len(other) > 0 {
		return fmt.Errorf("another process changed %s meanwhile; apply the file again: %w", strings.Join(other, ", "), fault.Conflict)
	}
	return nil
}
