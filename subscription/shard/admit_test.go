package shard

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
)

func TestWhatAFilterCannotJudgeIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	unknown := errors.New("nobody can say")
	s := New(Config{Policy: Policy{Terms: Terms{Filter: func(*dispatch.Record) (bool, error) { return true, unknown }}}})
	err := s.Handle(t.Context(), &dispatch.Record{Record: commitlog.Record{Key: []byte("k")}, Attempt: 1})
	if !errors.Is(err, unknown) || !dispatch.IsPermanent(err) {
		t.Errorf("%v; expected the error of the filter, for good", err)
	}
}
