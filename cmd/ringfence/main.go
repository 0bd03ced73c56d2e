// Command ringfence is the command line of Ringfence, see package internal/cli.
package main

import (
	"os"

	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/cli"
)

func main() { os.Exit(cli.Main("ringfence", backends.All())) }
