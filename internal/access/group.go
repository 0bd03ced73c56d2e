package access

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// firstUser is the lowest uid and gid of people: what is below belongs to services and to devices, and
// whoever administers a system puts others into such groups.
const firstUser = 1000

// nobody owns what a system knows no owner of: users of other hosts, or of the namespace around.
const nobody = 65534

// aloneHere is alone of this host's users and groups.
func aloneHere(uid, gid uint32) bool {
	if !own(uid, gid) {
		return false
	}
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return false
	}
	users, err := os.ReadFile("/etc/passwd")
	return err == nil && alone(uid, gid, string(groups), string(users))
}

// own tells whether a group has the number of a user, and of a person.
func own(uid, gid uint32) bool { return uid == gid && gid >= firstUser && gid != nobody }

// alone tells whether a group is that of one user only: it is the user's own, and neither lists
// somebody else nor is somebody else's first group. Of a group that these files don't know, nobody
// knows who is in it.
func alone(uid, gid uint32, groups, users string) bool {
	if !own(uid, gid) {
		return false
	}
	id := strconv.FormatUint(uint64(gid), 10)
	var names []string // one user may have several
	for line := range strings.Lines(users) {
		f := strings.Split(strings.TrimSpace(line), ":")
		switch {
		case len(f) < 4:
		case f[2] == id:
			names = append(names, f[0])
		case f[3] == id:
			return false
		}
	}
	known := false
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[2] != id {
			continue
		}
		known = true
		for member := range strings.SplitSeq(f[3], ",") {
			if member != "" && !slices.Contains(names, member) {
				return false
			}
		}
	}
	return known
}
