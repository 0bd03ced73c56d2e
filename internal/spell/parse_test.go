package spell

import (
	"testing"
	"time"
)

func TestParseTimeKnowsDaysAndWeeks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"7d": 168 * time.Hour, "1w": 168 * time.Hour, "1d12h": 36 * time.Hour, "1w1d1ms": 192*time.Hour + time.Millisecond, "90m": 90 * time.Minute, "0": 0, "-1s": -time.Second,
	} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("%s: %s, %v; expected %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "1d-1h", "-1d", "1.5d", "9223372036854775807w", "4000000w", "1h1d", "soon", "1d1"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestParseBytesKnowsUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "10": 10, "10GB": 10e9, "10G": 10e9, "512MiB": 512 << 20, "1kB": 1000, "3B": 3, "-1": -1} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; expected %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GB", "1e9", "1.5GB", "10gb", "1GiBB", "9223372036854775807KB", "10iB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}
