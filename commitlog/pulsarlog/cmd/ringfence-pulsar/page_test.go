package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ringfence/ringfence/internal/doctest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ringfence-pulsar": func() { os.Exit(run()) }})
}

// docs/guide/pulsar.md, command after command: see package doctest. pulsar-admin comes with a whole
// Pulsar only; what stands for it makes the same request.
func TestPageOfPulsar(t *testing.T) {
	t.Parallel()
	doctest.Compiled(t, "docs/guide/pulsar.md")
	doctest.Run(t, "testdata")
}
