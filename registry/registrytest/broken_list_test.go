package registrytest_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/registry/registrytest"
)

const sharesNamespaces = "shows one namespace the entries of another"

const (
	checks      = "a check compares versions and absence"
	whole       = "a transaction is all or nothing"
	independent = "transactions of one call are independent and in order"
	unique      = "versions are never used again"
	oneTime     = "writes to many keys keep their invariant"
	signals     = "a watch signals what changes below its prefix"
	coalesced   = "signals are coalesced and none is lost"
	closing     = "entries of a session vanish when it is closed"
	lives       = "a session that is renewed lives past its TTL"
	fenced      = "a put with an ended session is fenced"
	frozen      = "a frozen process's sessions end after the TTL and it finds out"
	givenUp     = "what is given up was done or not, as its error says"
)

var brokenRegistries = []broken{
	// Checks, versions, transactions.
	{name: "applies what a check refuses", catch: checks, wrap: each(func(t *driver.Txn) { t.Checks = nil })},
	{name: "takes any version for the one it has", catch: checks, wrap: each(func(t *driver.Txn) {
		t.Checks = slices.DeleteFunc(t.Checks, func(c driver.Check) bool { return c.Version != "" })
	})},
	{name: "does not check absence", catch: checks, wrap: each(func(t *driver.Txn) {
		t.Checks = slices.DeleteFunc(t.Checks, func(c driver.Check) bool { return c.Version == "" })
	})},
	{name: "names the wrong check", catch: checks, wrap: answers(func(r *driver.Result) { r.Failed = 0 })},
	{name: "looks at the first check only", catch: checks, wrap: each(func(t *driver.Txn) { t.Checks = t.Checks[:min(1, len(t.Checks))] })},
	{name: "puts before it checks", catch: whole, wrap: before(func(t driver.Txn) driver.Txn { return driver.Txn{Puts: t.Puts} })},
	{name: "deletes before it checks", catch: whole, wrap: before(func(t driver.Txn) driver.Txn { return driver.Txn{Deletes: t.Deletes} })},
	{name: "forgets the last put", catch: whole, wrap: each(func(t *driver.Txn) {
		if len(t.Puts) > 1 {
			t.Puts = t.Puts[:len(t.Puts)-1]
		}
	})},
	{name: "tears the puts of a transaction apart", catch: oneTime, wrap: tear},
	{name: "applies from the last to the first", catch: independent, wrap: backwards},
	{name: "loses quiet puts", catch: independent, wrap: each(func(t *driver.Txn) {
		if t.Quiet {
			t.Puts = nil
		}
	})},
	{name: "gives a value the version that it had before", catch: unique, wrap: digests},
	{name: "decides first and writes later", catch: "one of many racing writers wins", wrap: late},
	{name: "counts increments that were refused", catch: "concurrent increments are all counted", wrap: late},
	{name: "lets quiet puts pass unchecked", catch: checks, wrap: each(func(t *driver.Txn) {
		if t.Quiet {
			t.Checks = nil
		}
	})},

	// Readings.
	{name: "lists what was", catch: "a put is read back by every process", wrap: stale},
	{name: "answers quiet puts before they can be read", catch: "a register is linearizable", wrap: quietLater},
	{name: "lists in any order", catch: "many keys are listed in order", wrap: listed(func(es []driver.Entry) []driver.Entry {
		rand.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
		return es
	})},
	{name: "lists a page", catch: "many keys are listed in order", wrap: listed(func(es []driver.Entry) []driver.Entry { return es[:min(1000, len(es))] })},
	{name: "does not tell the time", catch: "a reading tells the store's time", wrap: func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
			snap, err := r.List(ctx, prefix)
			snap.Time = 0
			return snap, err
		}}
	}},
	{name: "takes no heed of case", catch: "prefixes are exact", wrap: foldCase},
	{name: "ends values at a zero byte", catch: "values and keys hold any bytes", wrap: values(func(v []byte) []byte { v, _, _ = bytes.Cut(v, []byte{0}); return v })},
	{name: "cuts large values", catch: "large values", wrap: values(func(v []byte) []byte { return v[:min(len(v), 65535)] })},
	{name: "shares its memory", catch: "what is returned belongs to the caller", wrap: share},
	{name: sharesNamespaces, catch: "namespaces are separate"},
	{name: "empties itself when it is opened", catch: "many processes start at once on an empty store", wrap: empties},

	// Watches.
	{name: "never signals", catch: signals, wrap: watching(func(context.Context, driver.Registry, string) (<-chan struct{}, error) {
		return make(chan struct{}), nil
	})},
	{name: "is silent about deletes", catch: signals, wrap: each(func(t *driver.Txn) { t.Quiet = t.Quiet || len(t.Deletes) > 0 })},
	{name: "signals everything to everybody", catch: "a watch is silent about other prefixes", wrap: watching(func(ctx context.Context, r driver.Registry, _ string) (<-chan struct{}, error) {
		return r.Watch(ctx, "")
	})},
	{name: "drops signals to which nobody listens", catch: coalesced, wrap: watching(func(ctx context.Context, r driver.Registry, prefix string) (<-chan struct{}, error) {
		return forward(ctx, r, prefix, 0, func() bool { return true })
	})},
	{name: "keeps a signal for each change", catch: coalesced, wrap: queues},
	{name: "leaves watches open", catch: "a watch ends with its context and with the registry", wrap: watching(func(ctx context.Context, r driver.Registry, prefix string) (<-chan struct{}, error) {
		return r.Watch(context.WithoutCancel(ctx), prefix)
	})},

	// Sessions.
	{name: "takes the entries of another session along", catch: closing, wrap: along},
	{name: "never renews", catch: lives, play: func(h *memregistry.Handle, _ *registrytest.Process) { h.Freeze() }},
	{name: "promises more time than it has", catch: lives, wrap: opening(func(x driver.Session) driver.Session {
		return wrappedSession{Session: x, deadline: func() time.Time { return x.Deadline().Add(time.Second) }}
	})},
	{name: "counts the lease from the answer", catch: "a session's deadline counts from when its renewal was sent", wrap: fromTheAnswer},
	{name: "lets the dead write", catch: fenced, wrap: afterFence(func(t *driver.Txn) {
		for i := range t.Puts {
			t.Puts[i].Session = ""
		}
	})},
	{name: "fences the bound puts only", catch: fenced, wrap: afterFence(func(t *driver.Txn) {
		t.Puts = slices.DeleteFunc(t.Puts, func(p driver.Put) bool { return p.Session != "" })
	})},
	{name: "keeps the first binding", catch: "rebinding moves an entry to another session", wrap: firstBinding},
	{name: "leaves its sessions behind", catch: "closing a registry ends its sessions", wrap: staysOpen},
	{name: "does not notice a death", catch: "a killed process's sessions end", play: func(_ *memregistry.Handle, p *registrytest.Process) { p.Kill = func() {} }},
	{name: "lets the dead have their TTL", catch: "a killed process's sessions end", play: func(h *memregistry.Handle, p *registrytest.Process) { p.Kill = h.Freeze }},
	{name: "keeps the frozen alive", catch: frozen, play: func(_ *memregistry.Handle, p *registrytest.Process) { p.Freeze = func() {} }},
	{name: "does not say that a session is over", catch: frozen, wrap: opening(func(x driver.Session) driver.Session {
		return wrappedSession{Session: x, done: make(chan struct{})}
	})},

	// Contexts and Close.
	{name: "ignores contexts", catch: "a cancelled context does not hang", wrap: func(r driver.Registry) driver.Registry {
		return wrapped{Registry: r, list: func(ctx context.Context, prefix string) (driver.Snapshot, error) {
			return r.List(context.WithoutCancel(ctx), prefix)
		}}
	}},
	{name: "calls absent what it has sent", catch: givenUp, wrap: sent(driver.ErrUnavailable)},
	{name: "acknowledges what it gave up", catch: givenUp, wrap: acknowledged},
	{name: "answers when it is closed", catch: "a closed registry says so", wrap: staysOpen},
}
