package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// servers starts the servers that mutants call for, unless the environment names them already. It
// returns the environment of their tests, and why some are not there.
func (h harness) servers(ctx context.Context, chosen []mutant) (env []string, missing map[string]error) {
	missing = make(map[string]error)
	for _, m := range chosen {
		variable := "RINGFENCE_" + strings.ToUpper(m.server) + "_URL"
		set := func(line string) bool { return strings.HasPrefix(line, variable+"=") }
		if m.server == "" || missing[m.server] != nil || os.Getenv(variable) != "" || slices.ContainsFunc(env, set) {
			continue
		}
		script, err := filepath.Abs(filepath.Join(h.root, "scripts", "services"))
		if err != nil {
			missing[m.server] = err
			continue
		}
		out, err := exec.CommandContext(ctx, script, "start", m.server).Output()
		if err != nil {
			missing[m.server] = fmt.Errorf("scripts/services start %s: %w", m.server, err)
			continue
		}
		for line := range strings.Lines(string(out)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok && set(value) {
				name, url, _ := strings.Cut(value, "=")
				env = append(env, name+"="+strings.Trim(url, "'"))
			}
		}
	}
	return env, missing
}

// demanded says whether RINGFENCE_REQUIRE lists a server.
func demanded(server string) bool {
	return slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), server)
}
