package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// A mistake is named with what was expected, and never taken for the default.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	subscriptionOf(t, data)
	const create = "subscription create other --topic orders --endpoint https://example.com/ "
	for line, want := range map[string][]string{
		"subscription create": {"found 0 arguments; expected: ringfence subscription create NAME --topic TOPIC"},
		"subscription create s --topic t --attempts -1 --shards -2": {"2 mistakes", "--attempts -1: expected 1 or more", "--shards -2: expected 1 or more"},
		"subscription dead-letters redrive s":                       {"expected --all"},
		"topic creat t --partitions 3":                              {`unknown command "creat" for "ringfence topic"; did you mean create?`},
		"toipc create t --partitions 3":                             {`unknown command "toipc" for "ringfence"; did you mean `, "topic"},
		"subscription dead-letters lst s --all":                     {`unknown command "lst" for "ringfence subscription dead-letters"; did you mean list?`},
		"topic create t --partitoins 3":                             {"unknown flag --partitoins; did you mean --partitions?"},
		"topic create t --partitions many":                          {`--partitions "many": expected a number`},
		"subscription create s --topic t --endpoint=":               {"--endpoint is empty: expected a value (URL), or no --endpoint at all"},
		"topic alter x":                                             {"retention-bytes"},
		"topic alter x --partitions 16":                             {`unknown flag --partitions; "topic add-storage" and`},
		"produce t --value hello":                                   {"unknown flag --value; a record is a line of stdin: echo hello"},
		"subscription run s --endpoint http://x/":                   {`unknown flag --endpoint; "subscription create" and "subscription alter" name`},
		"tail t --follow":                                           {"unknown flag --follow; it waits for more records until --idle-exit"},
		"nope":                                                      {`unknown command "nope" for "ringfence"; see "ringfence --help"`},
		"subscription alter s":                                      {"unset] is required"},
		"subscription alter s --unset filters --rate 1":             {`--unset "filters": expected one of attempts, `},
		"subscription alter s --unset rate --rate 1":                {"--unset rate and --rate: expected one of them"},
		"produce x --key a --key-sep :":                             {"[key key-sep] were all set"},
		"topic mirror a b c --once --cut-over":                      {"[cut-over once] were all set"},
		"demo --deliver --consumers 3":                              {"[consumers deliver] were all set"},
		"consume t":                                                 {`required flag(s) "group" not set; see "ringfence consume --help"`},
		"subscription create s":                                     {`required flag(s) "topic" not set`},
		"consume t --group g --exec-stores":                         {"--exec-stores needs --exec"},
		"consume t --group g --concurrency 0":                       {"--concurrency 0: expected 1 to 16384"},
		"consume t --group g --weight 0":                            {"--weight 0: expected 1 to "},
		"consume t --group g --max-in-flight 0":                     {"--max-in-flight 0: expected 1 to 16384"},
		"consume t --group g --retry-initial 10s --retry-max 1s":    {"is longer than --retry-max 1s"},
		"topic create lost --life zzz":                              {`--life "zzz": expected 8 letters and digits`},
		"bench produce --rounds 0 --batch -1 --async -1":            {"--rounds 0: expected 1 or more", "--batch -1: expected 1 or more", "--async -1: expected 0 or more"},
		"subscription dead-letters list billing --limit -1":         {"--limit -1: expected 0 or more"},
		create + "--timeout 0":                                      {"--timeout 0s: expected 1ms to 8760h0m0s"},
		create + "--timeout -1s":                                    {"--timeout -1s: expected 1ms to"},
		create + "--secret-file nothing --attempts 0":               {"nothing: file does not exist"},
		"subscription create other --topic orders --timeout 0s --retry-max 0s --attempts 0": {"3 mistakes"},
		"subscription dead-letters edit billing 0.0.1.0 --value-file .":                     {"is a directory"},
		// A file that is not there is 3.
		create + "--secret-file nothing":                                      {"3", "nothing: file does not exist"},
		"subscription dead-letters edit billing 0.0.1.0 --value-file nothing": {"3", "nothing: no such file"},
		"serve --host x":                                  {"expected --listen"},
		"serve --listen nonsense":                         {"expected HOST:PORT"},
		"serve --listen 0.0.0.0:7433":                     {"expected --tls-cert and --tls-key, or --behind-proxy"},
		"serve --token-file /nowhere/t --ca-file /no/one": {"3", "2 mistakes", "--token-file: stat /nowhere/t", "--ca-file: stat /no/one"},
	} {
		exit := 2
		if want[0] == "3" {
			exit, want = 3, want[1:]
		}
		code, stdout, stderr := runLine(t, append(strings.Fields(line), "--data", data, "--config=")...)
		if code != exit || stdout != "" {
			t.Errorf("%s: exit code %d, %q; expected %d", line, code, stdout, exit)
		}
		for _, text := range want {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: %q; expected %q", line, stderr, text)
			}
		}
	}
	for _, none := range []string{"subscription describe other", "topic describe lost"} {
		if code, _, _ := runLine(t, append(strings.Fields(none), "--data", data)...); code != 3 {
			t.Errorf("a mistake left something: %s has exit code %d", none, code)
		}
	}
}
