package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// The keys of a mirror, in the registry of the target:
//
//	mirrors/<topic>/<life>/copies/<storage>.<partition>   state
//	mirrors/<topic>/<life>/cutover                        plan
//	mirrors/<topic>/<life>/carried/<group>/<unit>         the checkpoint that a group's unit gets
//
// The life is that of the topic at the target.
const keyPrefix = "mirrors/"

func (m *Mirror) stateKey(storage, partition int) string {
	return fmt.Sprintf("%scopies/%04d.%05d", m.prefix(), storage, partition)
}

const stateFormat = 1

// newState is that of a partition of which nothing was copied.
func newState(first int64) state {
	return state{Format: stateFormat, Producer: commitlog.NewProducerID(), From: first, Stride: firstStride}
}

// state is how far a partition was copied. The one that is stored may be old: what it says stays true.
type state struct {
	Format   int    `json:"format"`
	Producer uint64 `json:"producer,string"` // of the appends; JSON has no 64 bits
	Epoch    int32  `json:"epoch"`           // of the mirror that runs: +1 at each start
	Sequence int64  `json:"sequence"`        // of the next append, or one that was there before
	// From and To are the pair: the target has below To what the source has below From.
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Records int64 `json:"records"` // that were copied below the pair
	// Last is the record of the source below the pair: a source that has not got it went back.
	Last protocol.Stamp `json:"last,omitzero"`
	// Anchors pair offsets, in order: what stands at an offset of the source and behind it went to
	// an offset of the target and behind it, record by record.
	Anchors []anchor `json:"anchors,omitempty"`
	Stride  int64    `json:"stride"` // records between two anchors
}

type anchor struct {
	Source  int64 `json:"source"`
	Target  int64 `json:"target"`
	Records int64 `json:"records"` // copied before it
}

const (
	firstStride = 16 << 10
	maxAnchors  = 128
)

// matched moves the pair over a record that both sides have, and notes where it is, if the last anchor is far
// enough away.
func (s *state) matched(source, target int64) {
	s.anchored(source, target)
	s.From, s.To = source+1, target+1
	s.Records++
}

func (s *state) anchored(source, target int64) {
	if n := len(s.Anchors); n > 0 && s.Records-s.Anchors[n-1].Records < s.Stride {
		return
	}
	s.Anchors = append(s.Anchors, anchor{source, target, s.Records})
	if len(s.Anchors) <= maxAnchors {
		return
	}
	kept := s.Anchors[:0]
	for i, a := range s.Anchors {
		if i%2 == 0 {
			kept = append(kept, a)
		}
	}
	s.Anchors = kept
	s.Stride *= 2
}

// stored is a state and its version: who writes it must have read it last.
type stored struct {
	state
	key     string
	version registry.Version
}

// takeOver reads a state, or makes the first one, and raises its epoch. From then on an older
// mirror neither writes the state nor appends.
func (m *Mirror) takeOver(ctx context.Context, key string, first int64) (*stored, error) {
	for {
		s, err := m.readState(ctx, key)
		if err != nil {
			return nil, err
		}
		if s.version == "" {
			s.state = newState(first)
		}
		s.Epoch++
		err = m.writeState(ctx, s)
		if err == nil || !errors.Is(err, fault.Conflict) {
			return s, err
		}
	}
}

func (m *Mirror) readState(ctx context.Context, key string) (*stored, error) {
	s := &stored{key: key}
	e, err := m.c.To.Registry.Get(ctx, key)
	if errors.Is(err, fault.NotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if s.state, err = decodeState(key, e.Value); err != nil {
		return nil, err
	}
	s.version = e.Version
	return s, nil
}

func decodeState(key string, value []byte) (s state, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return s, fmt.Errorf("registry key %q: %w: %w", key, fault.Corrupt, err)
	}
	if s.Format != stateFormat {
		return s, fmt.Errorf("registry key %q is of format %d; this version reads %d: %w", key, s.Format, stateFormat, fault.Invalid)
	}
	if !s.sound() {
		return s, fmt.Errorf("registry key %q: a mirror can't have stored %.200q: %w", key, value, fault.Corrupt)
	}
	return s, nil
}

// sound says whether everything is in the order that copying puts it in.
func (s *state) sound() bool {
	ok := s.Epoch >= 0 && s.Sequence >= 0 && s.From >= 0 && s.To >= 0 && s.Records >= 0 && s.Stride > 0
	var last anchor
	for _, a := range s.Anchors {
		ok = ok && a.Source >= last.Source && a.Target >= last.Target && a.Records >= last.Records
		last = a
	}
	return ok
}

// writeState stores a state if nobody else did since it was read; fault.Conflict otherwise.
func (m *Mirror) writeState(ctx context.Context, s *stored) error {
	value, err := json.Marshal(s.state)
	if err != nil {
		return fmt.Errorf("state of the mirror: %w", err)
	}
	for {
		versions, err := m.c.To.Registry.Txn(ctx, registry.Txn{
			Checks: []registry.Check{{Key: s.key, Version: s.version}}, Puts: []registry.Put{{Key: s.key, Value: value}}, Quiet: true,
		})
		if err == nil {
			s.version = versions[0]
			return nil
		}
		if !errors.Is(err, fault.Unknown) && !errors.Is(err, fault.Conflict) {
			return err
		}
		e, readErr := m.c.To.Registry.Get(ctx, s.key)
		switch {
		case readErr == nil && bytes.Equal(e.Value, value): // ours: the answer was lost
			s.version = e.Version
			return nil
		case errors.Is(err, fault.Conflict):
			return fmt.Errorf("the state of the mirror is not what this one wrote: another mirror of the topic runs, or the registry went back (run one at a time; if this is the only one, start it again): %w", err)
		case readErr != nil && !errors.Is(readErr, fault.NotFound):
			return readErr
		}
	}
}
