// Command ringfence-pulsar is ringfence with Apache Pulsar as one more commit log. It is a program
// of its own because Pulsar's client is larger than all the rest.
package main

import (
	"os"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/commitlog/pulsarlog"
	"github.com/ringfence/ringfence/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	all := append(backends.All(),
		ringfence.Backend{Scheme: "pulsar", OpenLog: pulsarlog.OpenURL},
		ringfence.Backend{Scheme: "pulsar+ssl", OpenLog: pulsarlog.OpenURL},
	)
	return cli.Main("ringfence-pulsar", all)
}
