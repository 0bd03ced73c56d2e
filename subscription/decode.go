package subscription

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

const (
	maxSets = 64
	setIDs  = "abcdefghijklmnopqrstuvwxyz234567" // of rand.Text, in small letters
)

// ErrDamaged says that a definition can't be used: it is damaged, or a newer version wrote it.
var ErrDamaged = fmt.Errorf("%w: no definition that can be used; deleting the subscription with --force (Force in Go) removes it, and all that is its", fault.Corrupt)

// ErrNewer says that a newer version has changed a definition, and with it perhaps the journals: this
// version must leave both alone.
var ErrNewer = fault.Newer

// decodeDocument reads a definition from a registry that others write to. ErrDamaged for what a
// creation would refuse: an unknown policy, say, would be taken for one that breaks the order.
func decodeDocument(e registry.Entry) (*Document, error) {
	d := new(Document)
	err := d.decode(e)
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("registry key %q: %w", e.Key, newerError{err})
	}
	if err != nil {
		return nil, fmt.Errorf("registry key %q: %w: %w", e.Key, ErrDamaged, err)
	}
	return d, nil
}

// newerError is ErrDamaged without its advice. This version can use nothing of the definition, but a
// newer one delivers the subscription, and deleting it is no remedy.
type newerError struct{ error }

func (e newerError) Unwrap() []error { return []error{e.error, ErrDamaged} }

func (d *Document) decode(e registry.Entry) error {
	err := json.Unmarshal(e.Value, d)
	if d.Format > documentFormat { // then its fields may be other ones
		return fmt.Errorf("a subscription of format %d; this version reads format %d: %w", d.Format, documentFormat, ErrNewer)
	}
	if err != nil {
		return err
	}
	if d.Format < documentFormat || prefix+d.Name != e.Key {
		return fmt.Errorf("a subscription %.80q of format %d; this version reads format %d", d.Name, d.Format, documentFormat)
	}
	if err := errors.Join(d.validate(), d.checkState(), checkSets(d.Sets)); err != nil {
		return errors.New(err.Error()) // not the caller's input
	}
	return nil
}

func (d *Document) checkState() error {
	if d.State == creating || d.State == ready || d.State == deleting {
		return nil
	}
	return fmt.Errorf("state %.20q; expected %s, %s or %s", d.State, creating, ready, deleting)
}

func isSetID(id string) bool { return len(id) == setIDBytes && strings.Trim(id, setIDs) == "" }
