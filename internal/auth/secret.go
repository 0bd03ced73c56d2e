// Package auth says which principal a token is of, and what that principal may do. The tokens are records of an internal
// topic: what the log has counts, so no registry that goes back revives a token that was revoked.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
)

// A secret is rf_ID_SECRET_CHECK: 64 bits that name the token, 256 bits that are secret, and a checksum that tells a typing
// error, and lets scanners find secrets in texts.
const prefix = "rf"

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding) //nolint:gochecknoglobals // a table

const idBytes, secretBytes = 8, 32

// newSecret makes a secret and its ID.
func newSecret() (id, secret string) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	id = letters.EncodeToString(random[:idBytes])
	body := strings.Join([]string{prefix, id, letters.EncodeToString(random[idBytes:])}, "_")
	return id, body + "_" + check(body)
}

func check(body string) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body)))
}

// digest is what is stored of a secret. It is random and long, so that a plain hash does.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// idOf is the ID in a secret. fault.Denied for a text that is none.
func idOf(secret string) (string, error) {
	parts := strings.Split(secret, "_")
	if len(parts) != 4 || parts[0] != prefix {
		return "", fmt.Errorf("the token is none of Ringfence; expected rf_ID_SECRET_CHECK: %w", fault.Denied)
	}
	if check(strings.Join(parts[:3], "_")) != parts[3] {
		return "", fmt.Errorf("the token is not whole, or has a typing error: %w", fault.Denied)
	}
	return parts[1], nil
}
