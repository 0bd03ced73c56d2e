package kafkalog

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThePasswordFileIsReadForEachLogin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	c := Config{User: "me", PasswordFile: file}
	m := c.mechanism()
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, sent, err := m.Authenticate(t.Context(), "h")
		if err != nil || string(sent) != "\x00me\x00"+want {
			t.Errorf("logged in with %q, %v; the file has %q", sent, err, want)
		}
	}
}
