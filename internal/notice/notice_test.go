package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheNoticeNamesAllThatIsLinked(t *testing.T) {
	t.Parallel()
	want, err := notice("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	have := make(map[string]bool)
	for line := range strings.Lines(string(got)) {
		have[line] = true
	}
	for line := range strings.Lines(string(want)) {
		if !have[line] {
			t.Errorf("NOTICE lacks %q, perhaps more: run make notice", line)
			return
		}
	}
	t.Error("NOTICE has more than what is linked: run make notice")
}

func TestALicenceThatNobodyReadIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                     "Apache-2.0",
		"Mozilla Public License Version 2.0 … Secondary: the GNU General Public License":   "MPL-2.0",
		"GNU AFFERO GENERAL PUBLIC LICENSE … Permission is hereby granted, free of charge": "",
		"All rights reserved.": "",
	} {
		if got := kindOf(text); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}
