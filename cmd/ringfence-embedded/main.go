// Command ringfence-embedded is the command line for directories alone, without the clients of any
// server: it is built in seconds from a handful of modules. Command ringfence has all of them.
package main

import (
	"os"

	"github.com/ringfence/ringfence/internal/cli"
)

func main() { os.Exit(cli.Main("ringfence-embedded", nil)) }
