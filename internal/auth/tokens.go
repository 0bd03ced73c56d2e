package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// topicName is the internal topic of the tokens, in the default namespace.
const topicName = "ringfence.tokens"

const most = 10_000 // tokens, revoked ones among them

// note is a record of the topic: a token that was made, or its end.
type note struct {
	Token   *api.Token `json:"token,omitempty"`
	Digest  string     `json:"digest,omitempty"` // of its secret
	Revoked string     `json:"revoked,omitempty"`
	At      api.Time   `json:"at"`
	By      string     `json:"by"`
}

type entry struct {
	api.Token
	digest string
	offset int64 // of its record
}

// Tokens are all tokens of a log, followed as they change.
type Tokens struct {
	catalog *topic.Catalog
	logger  *slog.Logger

	mu     sync.Mutex
	all    map[string]*entry // by ID
	seen   int64             // records below this offset are in all
	grown  chan struct{}     // closed when seen rises
	failed error             // the topic could not be read; then no token counts
}

// Open finds the tokens of a log. Run follows them.
func Open(ctx context.Context, catalog *topic.Catalog, logger *slog.Logger) (*Tokens, error) {
	if _, err := catalog.Ensure(ctx, topicName, topic.Config{Partitions: 1, Internal: "the access to daemons"}); err != nil {
		return nil, fmt.Errorf("the topic of the tokens: %w", err)
	}
	return &Tokens{catalog: catalog, logger: logger, all: map[string]*entry{}, grown: make(chan struct{})}, nil
}

// Run follows the topic until ctx ends. While it can't be read no token counts.
func (t *Tokens) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := t.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.failed = err
		t.mu.Unlock()
		t.logger.Warn("tokens can't be read, so no request is let in; it is tried again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (t *Tokens) follow(ctx context.Context) error {
	return t.with(ctx, func(st *commitlog.Topic) error {
		t.mu.Lock()
		r := st.NewReader(0, t.seen, nil)
		t.mu.Unlock()
		for {
			recs, err := r.Next(ctx)
			if err != nil {
				return err
			}
			for i := range recs {
				if err := t.take(&recs[i]); err != nil {
					return err
				}
			}
		}
	})
}

// with opens the storage topic of the tokens for f.
func (t *Tokens) with(ctx context.Context, f func(*commitlog.Topic) error) error {
	tp, err := t.catalog.Open(ctx, topicName)
	if err != nil {
		return err
	}
	st, err := tp.Storage(0)
	if err == nil {
		err = f(st)
	}
	return errors.Join(err, tp.Close())
}

// take makes one record count.
func (t *Tokens) take(r *commitlog.Record) error {
	var n note
	if err := json.Unmarshal(r.Value, &n); err != nil {
		return fmt.Errorf("%w: record %d of topic %q is no token: %w", fault.Corrupt, r.Offset, topicName, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.Token != nil {
		t.all[n.Token.ID] = &entry{*n.Token, n.Digest, r.Offset}
	} else if e := t.all[n.Revoked]; e != nil && e.Revoked == "" {
		again := *e
		again.Revoked = n.At
		t.all[n.Revoked] = &again
	}
	t.seen, t.failed = r.Offset+1, nil
	close(t.grown)
	t.grown = make(chan struct{})
	return nil
}

// caught waits until all below an offset counts.
func (t *Tokens) caught(ctx context.Context, next int64) error {
	for {
		t.mu.Lock()
		seen, grown, failed := t.seen, t.grown, t.failed
		t.mu.Unlock()
		if seen >= next {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("the tokens could not be read: %w: %w", fault.Unavailable, ctx.Err())
		}
	}
}

// Ready waits until the tokens that the log has now count.
func (t *Tokens) Ready(ctx context.Context) error {
	var next int64
	err := t.with(ctx, func(st *commitlog.Topic) error {
		b, err := st.Bounds(ctx, 0)
		next = b.Next
		return err
	})
	if err != nil {
		return err
	}
	return t.caught(ctx, next)
}

// Principal is what a secret is of. fault.Denied when it is of none, and fault.Unavailable while tokens can't be read.
func (t *Tokens) Principal(secret string, now time.Time) (*Principal, error) {
	id, err := idOf(secret)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	e, failed := t.all[id], t.failed
	t.mu.Unlock()
	switch {
	case failed != nil:
		return nil, fmt.Errorf("tokens can't be read now: %w", fault.Unavailable)
	case e == nil || subtle.ConstantTimeCompare([]byte(e.digest), []byte(digest(secret))) == 0:
		return nil, fmt.Errorf("the token is not known: %w", fault.Denied)
	case e.Revoked != "":
		return nil, fmt.Errorf("token %s was revoked at %s: %w", e.ID, e.Revoked, fault.Denied)
	case e.Expires != "" && !now.Before(e.Expires.Time()):
		return nil, fmt.Errorf("token %s has expired at %s: %w", e.ID, e.Expires, fault.Denied)
	}
	return &Principal{ID: e.ID, Name: e.Name, Grants: e.Grants}, nil
}

// List are all tokens, the oldest first.
func (t *Tokens) List() []api.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]api.Token, 0, len(t.all))
	for _, e := range slices.SortedFunc(maps.Values(t.all), func(a, b *entry) int { return cmp.Compare(a.offset, b.offset) }) {
		all = append(all, e.Token)
	}
	return all
}

// Make makes a token, which counts when Make returns.
func (t *Tokens) Make(ctx context.Context, by string, spec api.NewTokenSpec, now time.Time) (*api.NewToken, error) {
	errs := []error{checkGrants(spec.Grants)}
	if spec.Name == "" || len(spec.Name) > 100 {
		errs = append(errs, fmt.Errorf("name %.20q: expected 1 to 100 bytes: %w", spec.Name, fault.Invalid))
	}
	if spec.Expires != "" && !spec.Expires.Time().After(now) {
		errs = append(errs, fmt.Errorf("expires %.40q: expected a time to come, as 2027-01-31T12:00:00Z: %w", spec.Expires, fault.Invalid))
	}
	if len(t.List()) >= most {
		errs = append(errs, fmt.Errorf("there are %d tokens already, as many as may be: %w", most, fault.Invalid))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	id, secret := newSecret()
	made := api.Token{ID: id, Name: spec.Name, Grants: spec.Grants, Created: api.TimeOf(now), By: by}
	if spec.Expires != "" {
		made.Expires = api.TimeOf(spec.Expires.Time())
	}
	if err := t.write(ctx, note{Token: &made, Digest: digest(secret), At: made.Created, By: by}); err != nil {
		return nil, err
	}
	return &api.NewToken{Token: made, Secret: secret}, nil
}

// Revoke ends a token, for good. fault.NotFound when there is none of the ID; one that is revoked stays so.
func (t *Tokens) Revoke(ctx context.Context, by, id string, now time.Time) (*api.Token, error) {
	t.mu.Lock()
	e := t.all[id]
	t.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("token %.40q: %w", id, fault.NotFound)
	}
	if e.Revoked == "" {
		if err := t.write(ctx, note{Revoked: id, At: api.TimeOf(now), By: by}); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &t.all[id].Token, nil
}

// write stores a note, and waits until it counts here.
func (t *Tokens) write(ctx context.Context, n note) error {
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	var at int64
	err = t.with(ctx, func(st *commitlog.Topic) error {
		at, err = st.Append(ctx, 0, []commitlog.Record{{Value: value}}, nil)
		return err
	})
	if err != nil {
		return err
	}
	return t.caught(ctx, at+1)
}
