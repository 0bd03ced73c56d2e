package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
)

func TestEveryMistakeInTheFlagsIsNamed(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"-run", "fly", "-peers", "kafka", "-inflight", "many"}, io.Discard)
	if !errors.Is(err, errUsage) {
		t.Fatalf("got %v; want a usage error", err)
	}
	for _, want := range []string{`"fly"`, `"kafka"`, `"many"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, args := range [][]string{{"-nope"}, {"extra"}, {"-rounds", "-1"}, {"-inflight", "0"}} {
		if _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: got %v; want a usage error", args, err)
		}
	}
}

func TestRingfenceIsAlwaysMeasured(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-peers", "tidwall,nats"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Peers) != 3 || s.Peers[0].Name != peer.Ringfence {
		t.Errorf("got %v; want ringfence first", s.Peers)
	}
}

func TestTheFolderIsAbsolute(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-dir", "here"}, io.Discard)
	if err != nil || !filepath.IsAbs(s.Dir) || filepath.Base(s.Dir) != "here" {
		t.Errorf("%v, %q; a server that runs elsewhere would not find it", err, s.Dir)
	}
}

func TestRunPrintsOneJSONObjectAReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	args := []string{"-run", "produce", "-peers", "nats", "-inflight", "1", "-rounds", "1", "-seconds", "0.01", "-json", "-dir", t.TempDir()}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	reports := 0
	for dec := json.NewDecoder(&out); dec.More(); reports++ {
		var r measure.Report
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Bench == "" || len(r.Rows) != 2 || len(r.Rows[0].Rounds) != 1 {
			t.Errorf("got %+v", r)
		}
	}
	if reports != 1 {
		t.Errorf("got %d reports; want 1", reports)
	}
}
