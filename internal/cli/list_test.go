package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

// A document that breaks a limit, or is none, is named in a list, and hides nothing else.
func TestListsNameDamagedEntries(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runLine(t, "topic", "create", "sound", "--partitions", "1", "--data", data); code != 0 {
		t.Fatal(stderr)
	}
	reg, err := fileregistry.Open(t.Context(), fileregistry.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	for group, topic := range map[string]string{"fine": "sound", "odd": "bomb"} {
		g, err := protocol.NewGroup(reg, group)
		if err == nil {
			_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: topic, Units: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
		{Key: "topics/bomb", Value: []byte(`{"format":1,"name":"bomb","life":"a","state":"ready","storage":[{"name":"b","partitions":1099511627776,"k":1}],"router":"modulo","hash":"xxhash64"}`)},
		{Key: "groups/worse/meta", Value: []byte(`{"topic":"sound","units":1099511627776}`)},
		{Key: "rings/round/meta", Value: []byte(`{"format":1,"mode":"anchor"}`)},
		{Key: "rings/bomb/meta", Value: []byte(`{"format":1,"mode":"table","slots":1099511627776}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		rows []string // how they begin, and what else is in them
	}{
		{"topic list", []string{"bomb  topics/bomb", "sound  20"}},
		{"group list", []string{"fine  no members", "odd  damaged", "worse  damaged"}},
		{"ring list", []string{"bomb  rings/bomb/meta", "round  anchor"}},
		{"top --count 1", []string{"fine  no members", "odd  damaged", "worse  damaged"}},
	} {
		code, stdout, stderr := runLine(t, append(strings.Fields(c.line), "--data", data)...)
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", c.line, code, stderr)
		}
		for _, row := range c.rows {
			begins, has, _ := strings.Cut(row, "  ")
			found := false
			for line := range strings.Lines(stdout) {
				found = found || strings.HasPrefix(line, begins+" ") && strings.Contains(line, has)
			}
			if !found {
				t.Errorf("%s shows no row %q:\n%s", c.line, row, stdout)
			}
		}
		if code, _, stderr := runLine(t, append(strings.Fields(c.line), "--format", "json", "--data", data)...); code != 0 {
			t.Errorf("%s as JSON: exit code %d: %s", c.line, code, stderr)
		}
	}
}
