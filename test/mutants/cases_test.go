package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A change of the code that a case speaks of shows here first.
func TestEveryCaseApplies(t *testing.T) {
	t.Parallel()
	const root, most = "../..", 90
	all, err := readCases("cases")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || len(all) > most {
		t.Errorf("%d cases; expected 1 to %d, one for each promise and mechanism", len(all), most)
	}
	for _, m := range all {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if _, err := m.apply(string(source)); err != nil {
			t.Error(err)
		}
	}
}

func TestApplyRefusesTextThatIsNotThereOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after, find, want string
	}{
		{"", "b", "aXc a"},
		{"", "a", "not once"},
		{"c", "a", "abc X"},
		{"c", "b", "0 times"},
		{"z", "a", "any more"},
	} {
		got, err := mutant{after: c.after, find: c.find, put: "X"}.apply("abc a")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
