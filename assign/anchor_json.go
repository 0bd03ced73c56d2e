package assign

import (
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
)

// anchorFormat is the version of the document. It stands for the hash functions too: another
// hash is another format.
const anchorFormat = 1

// anchorDoc is the stored form of an Anchor.
type anchorDoc struct {
	Format  int      `json:"format"`
	Buckets []string `json:"buckets"` // the member of each; "": removed
	Removed []int    `json:"removed"` // the buckets without a member, in the order of their removal
}

// MarshalJSON returns the stored form.
func (a *Anchor) MarshalJSON() ([]byte, error) {
	return json.Marshal(anchorDoc{Format: anchorFormat, Buckets: append([]string{}, a.members...), Removed: append([]int{}, a.removed...)})
}

// UnmarshalJSON reads the stored form. ErrCorrupt when no history can have led to it; ErrInvalid
// when a newer version wrote it.
func (a *Anchor) UnmarshalJSON(b []byte) error {
	var d anchorDoc
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("anchor: %w: %w", err, fault.Corrupt)
	}
	if d.Format != anchorFormat {
		return fmt.Errorf("anchor of format %d; this version reads format %d: %w", d.Format, anchorFormat, fault.Invalid)
	}
	if err := d.check(); err != nil {
		return err
	}
	*a = *newAnchor(d.Buckets, d.Removed)
	return nil
}

func (d *anchorDoc) check() error {
	seen := make(map[string]bool, len(d.Buckets))
	for b, m := range d.Buckets {
		if seen[m] {
			return fmt.Errorf("anchor: bucket %d: member %.40q has another bucket already: %w", b, m, fault.Corrupt)
		}
		if m != "" {
			seen[m] = true
		}
	}
	gone := make([]bool, len(d.Buckets))
	for _, b := range d.Removed {
		if b < 0 || b >= len(gone) || gone[b] || d.Buckets[b] != "" {
			return fmt.Errorf("anchor: bucket %d is in the list of removed ones; expected buckets without a member, each once: %w", b, fault.Corrupt)
		}
		gone[b] = true
	}
	if empty := len(d.Buckets) - len(seen); empty != len(d.Removed) {
		return fmt.Errorf("anchor: %d buckets have no member and %d were removed; expected as many: %w", empty, len(d.Removed), fault.Corrupt)
	}
	if n := len(d.Buckets); n > MaxAnchorMembers {
		return fmt.Errorf("anchor: %d buckets; expected at most %d: %w", n, MaxAnchorMembers, fault.Corrupt)
	}
	return nil
}
