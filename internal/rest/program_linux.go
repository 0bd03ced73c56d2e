package rest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// forgetProgram lets go of the pages of the program, of which it has touched half when it has started: the kernel
// maps sixteen for each that is used. They stay in its cache, and what runs on comes back page by page. Only parts
// that this process has not changed are let go of.
func forgetProgram() {
	parts, err := programParts()
	if err != nil {
		return // the memory is held on to, and no more than that
	}
	for _, p := range parts {
		if !p.changed {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, p.from, p.to-p.from, unix.MADV_DONTNEED)
		}
	}
}

// part is a mapping of the program's file that can't be written.
type part struct {
	from, to uintptr
	resident int // KiB
	changed  bool
}

func programParts() (parts []part, err error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ours := false
	lines := bufio.NewScanner(f) // of tens of thousands: those of other mappings are not to allocate anything
	for lines.Scan() {
		word, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		if !bytes.HasSuffix(word, []byte(":")) { // the first line of a mapping
			if ours = bytes.HasSuffix(rest, []byte(" "+program)) && bytes.HasPrefix(rest, []byte("r-")); ours {
				var p part
				if _, err := fmt.Sscanf(string(word), "%x-%x", &p.from, &p.to); err != nil {
					return nil, fmt.Errorf("/proc/self/smaps has a mapping %q; expected two addresses: %w", word, err)
				}
				parts = append(parts, p)
			}
			continue
		}
		if !ours {
			continue
		}
		last := &parts[len(parts)-1]
		size := bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))
		switch string(word) {
		case "Rss:":
			last.resident, err = strconv.Atoi(string(size))
		case "Anonymous:", "Swap:": // pages of its own
			last.changed = last.changed || string(size) != "0"
		}
		if err != nil {
			return nil, fmt.Errorf("/proc/self/smaps has a size %q; expected a number: %w", size, err)
		}
	}
	return parts, lines.Err()
}
