package redisregistry

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/ringfence/ringfence/registry/driver"
)

// An entry in Redis:
//
//	0            13      24   25
//	+------------+-------+----+-------------------------+
//	| revision   | nonce | u  | value                   |   not bound
//	| revision   | nonce | b  | session, NUL, value     |   bound to a session
//	+------------+-------+----+-------------------------+
//
// Revision and nonce are the version. The revision counts the calls that changed something; no key
// gets one twice. A promoted replica may repeat revisions that it has not seen, so the nonce, random
// for each call, makes the version unique.
const (
	revisionDigits = 13
	versionBytes   = revisionDigits + 11

	unbound = 'u'
	bound   = 'b'
)

const idBytes = 8

// newID is 64 random bits in eleven characters: a nonce, or a name that is unique for ever.
func newID() string {
	var b [idBytes]byte
	rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func version(revision int64, nonce string) driver.Version {
	return driver.Version(fmt.Sprintf("%0*d%s", revisionDigits, revision, nonce))
}

// appendContent appends what stands behind the version of the entry that a put makes.
func appendContent(b []byte, p *driver.Put) []byte {
	if p.Session == "" {
		b = append(b, unbound)
	} else {
		b = append(append(append(b, bound), p.Session...), 0)
	}
	return append(b, p.Value...)
}

func contentBytes(p *driver.Put) int { return 2 + len(p.Session) + len(p.Value) }

// decodeEntry never fails: a damaged entry gets a value that is no document, which only readers of that
// key meet. Its version is what a transaction compares, so it can be overwritten and deleted.
func decodeEntry(key string, raw []byte) driver.Entry {
	e := driver.Entry{Key: key, Version: driver.Version(raw[:min(versionBytes, len(raw))]), Value: []byte("\x00")}
	if len(raw) <= versionBytes {
		return e
	}
	rest := raw[versionBytes+1:]
	switch kind := raw[versionBytes]; kind {
	case unbound:
	case bound:
		session, value, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			return e
		}
		e.Session, rest = string(session), value
	default:
		return e
	}
	e.Value = rest[:len(rest):len(rest)]
	return e
}

// decodeList reads the answer of the list script.
func decodeList(reply []rueidis.RedisMessage) (driver.Snapshot, error) {
	if len(reply) < 2 || len(reply)%2 != 0 {
		return driver.Snapshot{}, fmt.Errorf("an answer of %d parts", len(reply))
	}
	revision, err1 := reply[0].AsInt64()
	now, err2 := reply[1].AsInt64()
	if err := errors.Join(err1, err2); err != nil {
		return driver.Snapshot{}, err
	}
	if revision < 0 {
		return driver.Snapshot{}, errors.New("a key of this namespace is lost: it was evicted or deleted; restore the server's data, or delete the namespace's other keys and begin anew")
	}
	snap := driver.Snapshot{Revision: revision, Time: now}
	if len(reply) > 2 {
		snap.Entries = make([]driver.Entry, 0, len(reply)/2-1)
	}
	for i := 2; i < len(reply); i += 2 {
		key, err1 := reply[i].ToString()
		raw, err2 := reply[i+1].AsBytes()
		if err := errors.Join(err1, err2); err != nil {
			return driver.Snapshot{}, fmt.Errorf("key %q: %w", key, err)
		}
		if len(raw) > 0 { // else it counts as absent, see apply.lua
			snap.Entries = append(snap.Entries, decodeEntry(key, raw))
		}
	}
	return snap, nil
}
