package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// trial is what came of one mutant.
type trial struct {
	line  string
	wrong bool // it was not caught, or could not be tried though it has to be
	left  bool // it was not tried
}

// judge runs the tests of the mutants on the code as it is, where they must pass, and then on each
// mutant, where its test must fail. Some are tried at once; what comes of them is told in order.
func judge(ctx context.Context, root string, chosen []mutant, parallel int, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j := judgement{binaries: map[string]func() (built, error){}, healthy: map[string]func() (verdict, error){}}
	j.harness = harness{root: root, dir: dir}
	j.env, j.missing = j.servers(ctx, chosen)

	type answer struct {
		trial
		err error
	}
	answers := make([]chan answer, len(chosen))
	for i := range answers {
		answers[i] = make(chan answer, 1)
	}
	free := make(chan struct{}, parallel)
	var tries sync.WaitGroup
	defer tries.Wait()
	tries.Go(func() { // joined above, as the ones that it starts
		for i, m := range chosen {
			free <- struct{}{}
			tries.Go(func() {
				t, err := j.try(ctx, m)
				answers[i] <- answer{t, err}
				<-free
			})
		}
	})
	var wrong []string
	left := 0
	for i := range answers {
		a := <-answers[i]
		if a.err != nil {
			cancel()
			return a.err
		}
		fmt.Fprint(out, a.line)
		if a.wrong {
			wrong = append(wrong, a.line)
		}
		if a.left {
			left++
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d bugs were not caught:\n%s", len(wrong), len(chosen), strings.Join(wrong, ""))
	}
	fmt.Fprintf(out, "%d of %d bugs were caught\n", len(chosen)-left, len(chosen))
	return nil
}

// judgement is what the trials share.
type judgement struct {
	harness
	missing map[string]error // servers

	mu       sync.Mutex
	binaries map[string]func() (built, error)   // by package: its tests without a bug, built once
	healthy  map[string]func() (verdict, error) // by test: what it comes to without a bug, found out once
}

// built is what came of building the tests of a package.
type built struct {
	binary string // empty: there is none
	verdict
}

// baseline is what a mutant's test comes to without the bug. The linker is most of what a run costs, so all tests
// of a package share a binary.
func (j *judgement) baseline(ctx context.Context, m mutant) (verdict, error) {
	return once(j, j.healthy, m.pkg+" "+m.test, func() (verdict, error) {
		b, err := once(j, j.binaries, m.pkg, func() (built, error) {
			binary, v, err := j.build(ctx, m.pkg)
			return built{binary, v}, err
		})
		if err != nil || b.binary == "" {
			return b.verdict, err
		}
		return expect(passed, func() (verdict, error) { return j.sound(ctx, m, b.binary) })
	})
}

// once is what f returned for the key, for all who ask.
func once[T any](j *judgement, known map[string]func() (T, error), key string, f func() (T, error)) (T, error) {
	j.mu.Lock()
	look, ok := known[key]
	if !ok {
		look = sync.OnceValues(f)
		known[key] = look
	}
	j.mu.Unlock()
	return look()
}

func (j *judgement) try(ctx context.Context, m mutant) (trial, error) {
	if err := ctx.Err(); err != nil {
		return trial{}, err
	}
	if err := j.missing[m.server]; err != nil {
		return trial{fmt.Sprintf("%-34s NOT RUN, without its server: %v\n", m.name, err), demanded(m.server), true}, nil
	}
	v, err := j.baseline(ctx, m)
	if err != nil {
		return trial{}, err
	}
	if v.outcome != passed {
		return trial{fmt.Sprintf("%-34s NO BASELINE %s %s without the bug: %s\n%s", m.name, m.test, v.outcome, m.pkg, v.output), true, false}, nil
	}
	overlay, err := j.overlay(m)
	if err != nil {
		return trial{}, err
	}
	limit := patience(v)
	if v, err = expect(failed, func() (verdict, error) { return j.buggy(ctx, m, overlay, limit) }); err != nil {
		return trial{}, err
	}
	if v.outcome == failed {
		return trial{line: fmt.Sprintf("%-34s caught%s by %s in %s\n", m.name, v.again, m.test, v.took.Round(10*time.Millisecond))}, nil
	}
	return trial{fmt.Sprintf("%-34s SURVIVED: %s of %s %s, though %s\n%s", m.name, m.test, m.pkg, v.outcome, m.breaks,
		cmp.Or(strings.TrimSuffix(v.output, "\n")+"\n", "")), true, false}, nil
}
