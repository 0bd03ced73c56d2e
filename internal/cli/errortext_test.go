package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A URL that was given to the wrong flag, or in the wrong place, keeps its password to itself.
func TestNoFlagShowsASecret(t *testing.T) {
	t.Parallel()
	const secret = "redis://:hunter2@h"
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runLine(t, "topic", "create", "t", "--data", data); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{
		{"consume", "t", "--group", "g", "--max", secret},
		{"consume", "t", "--group", "g", "--from", secret, "--print", secret},
		{"consume", "t", "--group", secret},
		{"produce", "t", "--input", secret, "--header", secret},
		{"produce", "t", "--file", secret, "--data", data},
		{"topic", "describe", secret, "--data", data},
		{"topic", "create", secret, "--data", data},
		{"group", "describe", secret, "--data", data},
		{"topic", "list", "--format", secret, "--log-level", secret, "--durability", secret},
		{"topic", "list", "--config", secret},
		{"topic", "list", "--namespace", secret},
		{"topic", "list", "--data", secret},
		{"topic", "describe", secret},
		{"topic", "create", secret},
		{"topic", secret},
		{secret},
		{"tail", "t", "--partition", secret},
		{"group", "seek", "g", "--to", secret},
		{"group", "pause", "g", "--partition", secret},
		{"verify", "--faults", secret},
		{"log", "check", secret},
		{"ring", "join", secret},
		{"topic", "list", "--" + secret},
	} {
		if !slices.Contains(args, "--data") {
			args = append(args, "--data", data)
		}
		if code, stdout, stderr := runLine(t, args...); code == 0 || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%q: exit code %d, %s and\n%s", args, code, stdout, stderr)
		}
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("timeout: "+strings.Repeat("long", 1000)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runLine(t, "topic", "list", "--config", config); code != 2 || len(stderr) > 1000 {
		t.Errorf("exit code %d and %d bytes of a long value", code, len(stderr))
	}
}
