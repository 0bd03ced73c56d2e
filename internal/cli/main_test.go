package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// leakless runs tests as goleak.VerifyTestMain does, lets testscript.Main be what runs them, and fails
// when one of them left its data beside the code.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	if _, err := os.Stat("ringfence-data"); err == nil {
		fmt.Fprintln(os.Stderr, "a test made its data in the default place, ./ringfence-data, which others share; give it --data")
		return 1
	}
	return 0
}

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"ringfence":        func() { os.Exit(Main("ringfence", nil)) },
		"broken-ringfence": func() { os.Exit(Main("ringfence", brokenBackends())) },
		"endpoint":         func() { os.Exit(endpoint()) },
		"powerless-ringfence": func() {
			if err := dropRights(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(99)
			}
			os.Exit(Main("ringfence", nil))
		},
	})
}

// TestScripts runs the command line as people and scripts do; see testdata.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// A setting of the machine must not change what a script sees.
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, envPrefix) {
					e.Setenv(name, "")
				}
			}
			e.Setenv("TMPDIR", e.WorkDir)
			// What "powerless" runs must reach the work directory.
			return errors.Join(os.Chmod(filepath.Dir(e.WorkDir), 0o755), os.Chmod(e.WorkDir, 0o755))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"powerless": powerless,
			"mkfifo":    mkfifo,
			"big":       big,
			"match":     match,
			"await":     await,
			"flip":      flip,
		},
	})
}
