package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// A mistake is told with what was expected, and never taken for the default.
func TestSubscriptionMistakesAreTold(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	subscriptionOf(t, data)
	const create = "subscription create other --topic orders --endpoint https://example.com/ "
	for line, want := range map[string]struct {
		code   int
		stderr string
	}{
		"subscription dead-letters edit billing 0.0.1.0 --value-file nothing": {3, "nothing: no such file"},
		"subscription dead-letters edit billing 0.0.1.0 --value-file .":       {2, "is a directory"},
		"subscription dead-letters list billing --limit -1":                   {2, "--limit -1: expected 0 or more"},
		create + "--timeout 0":                                                              {2, "--timeout 0s: expected 1ms to 8760h0m0s"},
		create + "--timeout -1s":                                                            {2, "--timeout -1s: expected 1ms to"},
		create + "--secret-file nothing":                                                    {3, "nothing: file does not exist"},
		create + "--secret-file nothing --attempts 0":                                       {2, "nothing: file does not exist"},
		"consume orders --group g --concurrency 0":                                          {2, "--concurrency 0: expected 1 to "},
		"consume orders --group g --weight 0":                                               {2, "--weight 0: expected 1 to "},
		"consume orders --group g --max-in-flight 0":                                        {2, "--max-in-flight 0: expected 1 to "},
		"topic create lost --life zzz":                                                      {2, `--life "zzz": expected 8 letters and digits`},
		"consume orders --group g --retry-initial 10s --retry-max 1s":                       {2, "is longer than --retry-max 1s"},
		"subscription create other --topic orders --timeout 0s --retry-max 0s --attempts 0": {2, "3 mistakes"},
	} {
		code, stdout, stderr := runLine(t, append(strings.Fields(line), "--data", data, "--config=")...)
		if code != want.code || stdout != "" || !strings.Contains(stderr, want.stderr) {
			t.Errorf("%s: exit code %d, %q, %q; expected %d, %q", line, code, stdout, stderr, want.code, want.stderr)
		}
	}
	if code, _, _ := runLine(t, "subscription", "describe", "other", "--data", data); code != 3 {
		t.Errorf("a mistake left something: exit code %d", code)
	}
}
