package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckID says whether s can name a group, a member or a ring; what says which, for the message.
func CheckID(what, s string) error {
	if len(s) > 128 || !idPattern.MatchString(s) {
		return fmt.Errorf("%s %.20q (%d bytes): expected 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit: %w", what, s, len(s), ErrInvalid)
	}
	return nil
}

// Encode is the stored form of a document: its JSON.
func Encode(doc any) []byte {
	b, err := json.Marshal(doc)
	if err != nil {
		panic("registry: a document that can't be encoded: " + err.Error()) // plain structs only
	}
	return b
}
