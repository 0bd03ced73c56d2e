package pgregistry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// args are the arguments of a statement, in the server's binary format. Batches are large, and
// encoding their arrays by reflection would cost more than executing them.
type args struct {
	values  [][]byte
	oids    []uint32
	formats []int16
}

func (a *args) add(oid uint32, value []byte) {
	a.values, a.oids, a.formats = append(a.values, value), append(a.oids, oid), append(a.formats, pgtype.BinaryFormatCode)
}

func (a *args) text(s string) { a.add(pgtype.TextOID, []byte(s)) }

// arrayHead starts a one-dimensional array: dimensions, whether there may be nulls, the type of
// the elements, their number, and the index of the first.
func arrayHead(elem uint32, n, size int) []byte {
	b := make([]byte, 0, 20+4*n+size)
	dims := uint32(1)
	if n == 0 {
		dims = 0
	}
	b = binary.BigEndian.AppendUint32(b, dims)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, elem)
	if n == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // a chunk is small
	return binary.BigEndian.AppendUint32(b, 1)
}

// bytea adds an array of n byte strings, none of which is null.
func bytea[T string | []byte](a *args, list []T) {
	size := 0
	for _, x := range list {
		size += len(x)
	}
	b := arrayHead(pgtype.ByteaOID, len(list), size)
	for _, x := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(len(x))) //nolint:gosec // registry.MaxValueBytes
		b = append(b, x...)
	}
	a.add(pgtype.ByteaArrayOID, b)
}

func (a *args) uuids(list []pgtype.UUID) {
	b := arrayHead(pgtype.UUIDOID, len(list), 16*len(list))
	for _, x := range list {
		if !x.Valid {
			b = binary.BigEndian.AppendUint32(b, 1<<32-1) // null
			continue
		}
		b = binary.BigEndian.AppendUint32(b, 16)
		b = append(b, x.Bytes[:]...)
	}
	a.add(pgtype.UUIDArrayOID, b)
}

func (a *args) ints(list []int32) {
	b := arrayHead(pgtype.Int4OID, len(list), 4*len(list))
	for _, x := range list {
		b = binary.BigEndian.AppendUint32(b, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(x)) //nolint:gosec // the same bits
	}
	a.add(pgtype.Int4ArrayOID, b)
}

func (a *args) bools(list []bool) {
	b := arrayHead(pgtype.BoolOID, len(list), len(list))
	for _, x := range list {
		b = binary.BigEndian.AppendUint32(b, 1)
		if x {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	a.add(pgtype.BoolArrayOID, b)
}

// exec executes a statement, and reads its answer in the server's binary format.
func (a *args) exec(ctx context.Context, c *pgx.Conn, sql string) *pgconn.Result {
	return c.PgConn().ExecParams(ctx, sql, a.values, a.oids, a.formats, []int16{pgtype.BinaryFormatCode}).Read()
}

// call executes a statement that returns one array of numbers.
func (a *args) call(ctx context.Context, c *pgx.Conn, sql string) ([]int32, error) {
	r := a.exec(ctx, c, sql)
	if r.Err != nil {
		return nil, r.Err
	}
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return nil, fmt.Errorf("%d rows; expected one array: %w", len(r.Rows), errAnswer)
	}
	return readInts(r.Rows[0][0])
}

var errAnswer = errors.New("the server's answer is not understood")

// readInts reads an array of numbers; null is an empty one.
func readInts(b []byte) ([]int32, error) {
	const head, each = 20, 8
	if len(b) < head {
		return nil, nil // null, or empty: no dimension
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	if b = b[head:]; len(b) != n*each {
		return nil, fmt.Errorf("an array of %d numbers in %d bytes: %w", n, len(b), errAnswer)
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(binary.BigEndian.Uint32(b[i*each+4:])) //nolint:gosec // the same bits
	}
	return out, nil
}
