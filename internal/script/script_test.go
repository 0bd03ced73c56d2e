package script

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScriptEndsAtAnErrorAndIsUndone(t *testing.T) {
	t.Parallel()
	boom, order := errors.New("boom"), ""
	err := Try(func(s *Script) {
		s.Later(func() error { order += "a"; return errors.ErrUnsupported })
		s.Later(func() error { order += "b"; return nil })
		if n := Must(strconv.Atoi("7")); n != 7 {
			t.Errorf("got %d", n)
		}
		Check(boom)
		t.Error("it went on")
	})
	if !errors.Is(err, boom) || !errors.Is(err, errors.ErrUnsupported) || order != "ba" {
		t.Errorf("%v, undone %q; expected the error and that of the undoing, and the last one undone first", err, order)
	}
	if err := Try(func(*Script) {}); err != nil {
		t.Error(err)
	}
}

func TestScriptLetsAPanicPass(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v != "bug" {
			t.Errorf("recovered %v; expected the bug", v)
		}
	}()
	err := Try(func(*Script) { panic("bug") })
	t.Errorf("it returned %v", err)
}

func TestScriptJoinsItsGoroutinesAndReturnsTheirErrors(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	err := Try(func(*Script) {
		Together(5, func(i int) {
			calls.Add(1)
			if i%2 == 1 {
				Check(errors.New("number " + strconv.Itoa(i)))
			}
		})
	})
	if err == nil || calls.Load() != 5 || !strings.Contains(err.Error(), "number 1") || !strings.Contains(err.Error(), "number 3") {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	ended := 0
	wait := func(ctx context.Context) error { <-ctx.Done(); ended++; return errors.ErrUnsupported }
	err = Try(func(s *Script) {
		if stop := s.Beside(t.Context(), wait); !errors.Is(stop(), errors.ErrUnsupported) || ended != 1 {
			t.Errorf("%d have ended; expected one", ended)
		}
	})
	if err != nil {
		t.Errorf("%v was told twice", err)
	}
	if err := Try(func(s *Script) { s.Beside(t.Context(), wait) }); !errors.Is(err, errors.ErrUnsupported) || ended != 2 {
		t.Errorf("%v, %d have ended", err, ended)
	}
}
