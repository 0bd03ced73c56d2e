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
	j := judgement{healthy: map[string]func() (verdict, error){}}
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

	mu      sync.Mutex
	healthy map[string]func() (verdict, error) // by test: what it comes to without a bug, found out once
}

// baseline is what a mutant's test comes to without the bug.
func (j *judgement) baseline(ctx context.Context, m mutant) (verdict, error) {
	key := m.pkg + " " + m.test
	j.mu.Lock()
	look, ok := j.healthy[key]
	if !ok {
		look = sync.OnceValues(func() (verdict, error) { return j.expect(ctx, m, "", soundLimit, passed) })
		j.healthy[key] = look
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
	if v, err = j.expect(ctx, m, overlay, patience(v), failed); err != nil {
		return trial{}, err
	}
	if v.outcome == failed {
		return trial{line: fmt.Sprintf("%-34s caught%s by %s in %s\n", m.name, v.again, m.test, v.took.Round(10*time.Millisecond))}, nil
	}
	return trial{fmt.Sprintf("%-34s SURVIVED: %s of %s %s, though %s\n%s", m.name, m.test, m.pkg, v.outcome, m.breaks,
		cmp.Or(strings.TrimSuffix(v.output, "\n")+"\n", "")), true, false}, nil
}
