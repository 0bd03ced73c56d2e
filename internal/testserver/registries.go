package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Registries are the servers that hold a registry: their files in scripts/services.d have the line NAME_registry=yes.
func Registries(t testing.TB) (names []string) {
	t.Helper()
	files, err := filepath.Glob(Above(t, "scripts/services") + ".d/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sh")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\n"+name+"_registry=yes\n") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no file of scripts/services.d is of a registry")
	}
	return names
}
