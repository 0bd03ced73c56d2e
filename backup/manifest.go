package backup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

const (
	formatFile   = "FORMAT"
	manifestFile = "MANIFEST"
	formatHead   = "ringfence backup, format "
	formatText   = formatHead + "1\n"
)

// file is one file of a backup.
type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"xxh64"`
}

// manifest says what a backup holds. Its text begins with a line that has its own checksum.
type manifest struct {
	Backup api.Backup `json:"backup"`
	Files  []file     `json:"files"`
}

func (m *manifest) encode() ([]byte, error) {
	slices.SortFunc(m.Files, func(a, b file) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(m, "", " ")
	return fmt.Appendf(nil, "xxh64 %016x\n%s\n", xxhash.Sum64(b), b), err
}

func decodeManifest(b []byte) (*manifest, error) {
	head, body, _ := strings.Cut(string(b), "\n")
	body = strings.TrimSuffix(body, "\n")
	m := &manifest{}
	if head != fmt.Sprintf("xxh64 %016x", xxhash.Sum64String(body)) {
		return nil, fmt.Errorf("its checksum does not match: %w", fault.Corrupt)
	}
	if err := json.Unmarshal([]byte(body), m); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Corrupt, err)
	}
	return m, nil
}

// checkFormat tells a newer format from what is no backup.
func checkFormat(b []byte) error {
	if string(b) == formatText {
		return nil
	}
	if n := 0; strings.HasPrefix(string(b), formatHead) {
		if _, err := fmt.Sscanf(string(b[len(formatHead):]), "%d\n", &n); err == nil && n > 1 {
			return fmt.Errorf("the backup has format %d, this program reads 1: %w", n, fault.Newer)
		}
	}
	return errNoBackup
}

var errNoBackup = fmt.Errorf("this is no backup of Ringfence: expected what \"ringfence backup\" wrote: %w", fault.Invalid)
