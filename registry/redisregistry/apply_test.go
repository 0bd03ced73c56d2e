package redisregistry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
)

// More than fits into one call of the script, or its stack.
func TestManyTransactionsOfOneCallKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	const n = 2*chunkTxns + 100
	txns := make([]driver.Txn, n)
	for i := range txns {
		txns[i] = driver.Txn{
			Checks: []driver.Check{{Key: fmt.Sprint("done/", i)}, {Key: "last"}},
			Puts:   []driver.Put{{Key: fmt.Sprint("done/", i), Value: []byte(fmt.Sprint(i))}},
		}
		if i%2 == 1 { // each needs what the one before it did
			txns[i].Checks = []driver.Check{{Key: fmt.Sprint("done/", i-1)}}
		}
	}
	txns[n-1] = driver.Txn{Puts: []driver.Put{{Key: "last", Value: make([]byte, chunkBytes)}}}
	results, err := s.Apply(t.Context(), append(txns, txns[0]))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if wantErr := i%2 == 1 && i != n-1 || i == n; wantErr != errors.Is(r.Err, fault.Conflict) {
			t.Fatalf("transaction %d: %v", i, r.Err)
		}
	}
}

func TestOneTransactionMayWriteThousandsOfKeys(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	watch, err := s.Watch(t.Context(), "k/4999")
	if err != nil {
		t.Fatal(err)
	}
	drain(watch)
	var put, del driver.Txn
	for i := range 5000 {
		key := fmt.Sprintf("k/%04d", i)
		put.Puts = append(put.Puts, driver.Put{Key: key, Value: []byte(key)})
		put.Checks = append(put.Checks, driver.Check{Key: key})
		del.Deletes = append(del.Deletes, key)
	}
	for _, step := range []struct {
		txn  driver.Txn
		want int
	}{{put, 5000}, {del, 0}} {
		apply(t, s, step.txn)
		select {
		case <-watch:
		case <-time.After(soon):
			t.Fatal("the watch was not signalled")
		}
		if snap, err := s.List(t.Context(), "k/"); err != nil || len(snap.Entries) != step.want {
			t.Fatalf("%d entries, %v; expected %d", len(snap.Entries), err, step.want)
		}
	}
}

func TestQuietTransactionsTellNobody(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	watch, err := s.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	drain(watch)
	quiet := put("k", "1")[0]
	quiet.Quiet = true
	apply(t, s, quiet)
	select {
	case <-watch:
		t.Error("a quiet transaction was told")
	case <-time.After(100 * time.Millisecond):
	}
	apply(t, s, put("k", "2")[0])
	select {
	case <-watch:
	case <-time.After(soon):
		t.Error("one that is not quiet was not told")
	}
}

// A quiet put does not look at what it replaces, and so leaves it in the index of its session.
func TestWhatAQuietPutTookFromASessionStays(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	x, err := s.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "taken", Session: x.ID()}, {Key: "kept", Session: x.ID()}}})
	apply(t, s, driver.Txn{Quiet: true, Puts: []driver.Put{{Key: "taken", Value: []byte("mine")}, {Key: "new", Value: []byte("too")}}})
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"taken": "mine", "new": "too", "kept": "<absent>"} {
		if got := value(t, s, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

func TestDatabasesOfOneServerAreSeparate(t *testing.T) {
	t.Parallel()
	here := server(t)
	there := here
	there.DB = here.DB + 1
	a, b, c := mustOpen(t, here), mustOpen(t, there), mustOpen(t, there)
	if _, err := a.Watch(t.Context(), ""); err != nil { // it has the failure detector, of its own database
		t.Fatal(err)
	}
	x, err := b.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, b, driver.Txn{Puts: []driver.Put{{Key: "member/1", Session: x.ID()}}})
	if got := value(t, a, "member/1"); got != "<absent>" {
		t.Errorf("database %d has the entry of database %d", here.DB, there.DB)
	}
	if _, err := c.Watch(t.Context(), ""); err != nil { // and so has it
		t.Fatal(err)
	}
	b.shut(false)
	eventually(t, "the death of the one is noticed by the other", func() error {
		if got := value(t, c, "member/1"); got != "<absent>" {
			return errors.New("its entry is there")
		}
		return nil
	})
}

func TestARefusalInTheMiddleLeavesNoTrace(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s := mustOpen(t, cfg)
	limited := cfg
	limited.Username, limited.Password = "test-"+newID(), newID()
	command(t, s, "ACL", "SETUSER", limited.Username, "on", ">"+limited.Password, "~*", "resetchannels", "+@all")
	defer func() {
		_ = s.client.Do(t.Context(), s.client.B().Arbitrary("ACL", "DELUSER", limited.Username).Build()).Error()
	}()
	mute := mustOpen(t, limited)
	if _, err := mute.Apply(t.Context(), put("k", "1")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a transaction that may not be told: %v", err)
	}
	if got := value(t, s, "k"); got != "<absent>" {
		t.Errorf("k is %s after a refusal", got)
	}
}

func TestANewerFormatIsRefusedAndNotTouched(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	s := mustOpen(t, cfg)
	command := s.client.B().Hset().Key(s.names.meta).FieldValue().FieldValue("format", "2").Build()
	if err := s.client.Do(t.Context(), command).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), cfg); !errors.Is(err, fault.Newer) {
		t.Fatalf("%v; expected that a newer version wrote it", err)
	}
}

func TestANamespaceCannotReachIntoAnother(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"", "a", "a}", "a}:", "{a", "a/b", "a%2Fb", "a:b", "ä", "a b", "a+b"} {
		n, err := newNames(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[n.meta]; ok {
			t.Errorf("namespaces %q and %q share %s", name, other, n.meta)
		}
		seen[n.meta] = name
		if tag := n.meta[:len(n.meta)-len("}:meta")]; tag[0] != '{' || len(tag) > 1 && strings.ContainsAny(tag[1:], "{}") {
			t.Errorf("namespace %q: the hash tag of %s is not its name", name, n.meta)
		}
	}
	for _, bad := range []string{"\x00", string(make([]byte, 129))} {
		if _, err := newNames(bad, 0); !errors.Is(err, fault.Invalid) {
			t.Errorf("namespace %q: error %v", bad, err)
		}
	}
}
