//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The clocks that count from the start of the host are what its processes can compare times by, but a
// container may have a time namespace, in which they count from elsewhere, by days. So a process
// that writes such a time for others takes off what its own is ahead.

// timeOffsets says by how much the clocks of a time namespace are ahead of the host's.
const timeOffsets = "/proc/self/timens_offsets"

// ClockAhead is by how much CLOCK_MONOTONIC or CLOCK_BOOTTIME is ahead of what it is outside of all time
// namespaces; that never changes. An error means that it can't be known.
func ClockAhead(clock int32) (time.Duration, error) {
	said, err := os.ReadFile(timeOffsets)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // this kernel has none
	}
	if err != nil {
		return 0, err
	}
	return offsetOf(clock, string(said))
}

// offsetOf is what a file such as timeOffsets says of a clock. Lines are "monotonic 86400 0", with
// seconds and nanoseconds; older kernels give the number of the clock.
func offsetOf(clock int32, said string) (time.Duration, error) {
	name := "monotonic"
	if clock == unix.CLOCK_BOOTTIME {
		name = "boottime"
	}
	for line := range strings.Lines(said) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != name && f[0] != strconv.Itoa(int(clock)) {
			continue
		}
		s, err := strconv.ParseInt(f[1], 10, 64)
		ns, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		return time.Duration(s)*time.Second + time.Duration(ns), nil
	}
	return 0, fmt.Errorf("%s says nothing of the clock %s: %q", timeOffsets, name, said)
}
