//go:build linux

package vfs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheOffsetOfATimeNamespaceIsRead(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		said                string
		monotonic, boottime time.Duration
		wrong               bool
	}{
		{said: "monotonic           0         0\nboottime            0         0\n"},
		{said: "monotonic       86400         0\nboottime      -172800         0\n", monotonic: day, boottime: -2 * day},
		{said: "monotonic          -1 500000000\nboottime            0         7\n", monotonic: -time.Second / 2, boottime: 7},
		{said: "1                  86400       0\n7                 172800       0\n", monotonic: day, boottime: 2 * day},
		{said: "", wrong: true},
		{said: "monotonic x 0\nboottime 1 y\n", wrong: true},
		{said: "monotonic 0\nboottime\n", wrong: true},
	} {
		for clock, want := range map[int32]time.Duration{unix.CLOCK_MONOTONIC: c.monotonic, unix.CLOCK_BOOTTIME: c.boottime} {
			if got, err := offsetOf(clock, c.said); got != want || (err != nil) != c.wrong {
				t.Errorf("%q, clock %d: %s, %v; expected %s, wrong %t", c.said, clock, got, err, want, c.wrong)
			}
		}
	}
}
