package topic

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/memtest"
)

// A definition in a registry that others write to is refused, with an error of a kind, or usable:
// every key has a partition, every partition a unit, and every unit its place.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"format":1,"name":"x","life":"a","state":"ready","storage":[{"name":"x..0","partitions":1,"k":1}],"router":"modulo","hash":"xxhash64","created":1}`), []byte("key"))
	f.Add([]byte(`{"format":1,"name":"x","life":"a","state":"ready","storage":[{"name":"x..0","partitions":2,"k":1,"ends":[1,2]},{"name":"x..1","partitions":4,"k":2}],"produce":1,"router":"range","hash":"xxhash64"}`), []byte{0x80})
	f.Add([]byte(`{"format":1,"life":"a","storage":[{"partitions":4611686018427387904,"k":1},{"partitions":4611686018427387904,"k":4611686018427387904}],"router":"modulo","hash":"murmur2"}`), []byte{})
	many := strings.Repeat(`{"name":"x..0","partitions":4096,"k":1},`, protocol.MaxUnits/commitlog.MaxPartitions+1)
	f.Add([]byte(`{"format":1,"name":"x","life":"a","storage":[`+strings.TrimSuffix(many, ",")+`],"router":"modulo","hash":"xxhash64"}`), []byte{})
	f.Add([]byte(`{"format":1,"name":"x","life":"a","storage":[{"name":"x..0","partitions":1,"k":1},{"name":"x..1","partitions":1,"k":1,"creating":true}],"produce":1,"router":"modulo","hash":"xxhash64"}`), []byte{})
	f.Fuzz(func(t *testing.T, value, key []byte) {
		var d *Document
		var err error
		memtest.AtMost(t, 64*len(value), value, func() { d, err = decode("topics/x", value) })
		if err != nil {
			if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decode("topics/x", b); err != nil || !reflect.DeepEqual(plainly(d), plainly(again)) {
			t.Fatalf("%s comes back as %+v, %v", b, again, err)
		}
		v := d
		if v.Produce >= len(v.Storage) || v.End(v.Produce, 0) != -1 {
			t.Fatalf("of %d storage topics %d takes records, and ends at %d", len(v.Storage), v.Produce, v.End(v.Produce, 0))
		}
		if n := v.Units(); n < 1 || n > len(v.Storage)*commitlog.MaxPartitions || n > protocol.MaxUnits {
			t.Fatalf("%d units in %d storage topics", n, len(v.Storage))
		}
		for s, st := range v.Storage {
			r := v.Router.For(v.Hash, st.Partitions, st.K)
			p := r.Partition(key)
			if p < 0 || p >= st.Partitions || p != v.Router.Route(v.Hash.Sum(key), st.Partitions, st.K) {
				t.Fatalf("the key %q is in partition %d of %d", key, p, st.Partitions)
			}
			if storage, partition, ok := v.Partition(v.Unit(s, p)); !ok || storage != s || partition != p {
				t.Fatalf("unit %d is partition %d of %d, not %d of %d", v.Unit(s, p), partition, storage, p, s)
			}
			if of, ok := v.Parents(s, p); ok && (of.From < 0 || of.To > v.Storage[s-1].Partitions || of.From >= of.To || of.Step < 1) {
				t.Fatalf("partition %d of %d has the parents %+v of %d", p, s, of, v.Storage[s-1].Partitions)
			}
			if v.End(s, p) < -1 {
				t.Fatalf("partition %d of %d ends at %d", p, s, v.End(s, p))
			}
		}
	})
}

// plainly is a definition with nil for what is empty.
func plainly(d *Document) Document {
	c := *d
	c.Storage = nil
	for _, s := range d.Storage {
		if len(s.Ends) == 0 {
			s.Ends = nil
		}
		c.Storage = append(c.Storage, s)
	}
	return c
}
