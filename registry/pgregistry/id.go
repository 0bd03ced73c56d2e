package pgregistry

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgtype"
)

// id is a version or a session as the database holds it; not valid: null.
type id struct{ pgtype.UUID }

// text is the id as callers see it; "" for none.
func (x id) text() string {
	if !x.Valid {
		return ""
	}
	return hex.EncodeToString(x.Bytes[:])
}

// parse reads what text gave; ok is false for anything else.
func parse(text string) (x pgtype.UUID, ok bool) {
	if len(text) != 2*len(x.Bytes) {
		return x, false
	}
	if _, err := hex.Decode(x.Bytes[:], []byte(text)); err != nil {
		return x, false
	}
	x.Valid = true
	return x, true
}

// noID is no version and no session that was ever given out.
func noID() pgtype.UUID {
	x := pgtype.UUID{Valid: true}
	for i := range x.Bytes {
		x.Bytes[i] = 0xff
	}
	return x
}

// idSource makes versions and session IDs: 80 random bits of this handle and a count. They need
// nothing from the store, so one that lost its last seconds in a failover can't repeat them.
type idSource struct {
	nonce [10]byte
	n     atomic.Uint64
}

func newIDSource() *idSource {
	m := &idSource{}
	_, _ = rand.Read(m.nonce[:]) // it never fails
	return m
}

func (m *idSource) next() pgtype.UUID {
	x := pgtype.UUID{Valid: true}
	binary.BigEndian.PutUint64(x.Bytes[8:], m.n.Add(1))
	copy(x.Bytes[:], m.nonce[:]) // over the count's two highest bytes
	return x
}
