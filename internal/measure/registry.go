package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/script"
	"github.com/ringfence/ringfence/registry"
)

// checkpoints measures the coordination store: fenced checkpoints, in batches and one at a time.
type checkpoints struct{ Units, Batch, Callers int }

func (c *checkpoints) flags(fl *pflag.FlagSet, common *Common) {
	common.turnsVar(fl)
	numberVar(fl, &c.Units, "units", 1024, 1, "units whose checkpoints are written")
	numberVar(fl, &c.Batch, "batch", 256, 1, "checkpoints of one call")
	numberVar(fl, &c.Callers, "callers", 4, 1, "callers at the same time")
}

func (c *checkpoints) demand(d *demands, _ *Common) {
	d.that(c.Units >= c.Batch*c.Callers, "--units %d is less than --batch %d times --callers %d: no two may write the same checkpoint", c.Units, c.Batch, c.Callers)
}

func (c *checkpoints) measure(ctx context.Context, run *run) {
	r := &registryRun{checkpoints: c, run: run, rf: run.open(ctx, "", ringfence.Sync)}
	r.claim(ctx)
	bare, kind := r.enterBare(ctx), "checkpoints"
	if bare == nil {
		kind = "" // nothing to compare with
	}
	run.Add(Entry{
		Name: fmt.Sprintf("fenced checkpoints, %d a call, %s", c.Batch, Many(c.Callers, "caller")), Unit: "checkpoints/s", To: bare, Kind: kind,
		Turn: func(t *Turn) float64 { return r.write(ctx, t, c.Callers, c.Batch) },
	})
	run.Add(Entry{
		Name: "fenced checkpoints, one a call, one caller", Unit: "checkpoints/s",
		Turn: func(t *Turn) float64 { return r.write(ctx, t, 1, 1) },
	})
	run.play()
	run.done("%s of one member, %s of %s taken in turn", Many(c.Units, "unit"), Many(run.Rounds, "round"), run.For)
}

// registryRun is a member that owns all units of a group.
type registryRun struct {
	*checkpoints
	*run
	rf     *ringfence.Client
	group  *protocol.Group
	grants []protocol.Grant
	// By unit: the offset of its latest checkpoint, and that checkpoint's version. A unit has one writer.
	next     []int64
	versions []registry.Version
}

const (
	registryGroup  = "bench"
	registryMember = "bench"
	registryTTL    = 30 * time.Second
)

// claim joins the group and claims all units. The member leaves when the run ends, so that its group can be removed.
func (r *registryRun) claim(ctx context.Context) {
	reg := r.rf.Registry()
	r.group = script.Must(protocol.NewGroup(reg, registryGroup))
	script.Must(r.group.EnsureMeta(ctx, protocol.Meta{Topic: "none", Units: r.Units, Assignor: "none"}))
	session := script.Must(reg.OpenSession(ctx, registryTTL))
	r.Later(func() error { return session.Close(context.WithoutCancel(ctx)) })
	st := script.Must(r.group.Load(ctx, false))
	self := protocol.Member{ID: registryMember, Incarnation: session.ID()}
	_, seen, _ := st.Member(self.ID)
	joined := script.Must(reg.Txn(ctx, r.group.JoinTxn(protocol.Join{Member: self, Session: session.ID(), Seen: seen, Meta: st.MetaVersion})))
	txns := make([]registry.Txn, r.Units)
	r.grants, r.next, r.versions = make([]protocol.Grant, r.Units), make([]int64, r.Units), make([]registry.Version, r.Units)
	for i := range txns {
		owner := protocol.Owner{Member: self.ID, Incarnation: self.Incarnation, Epoch: protocol.NextEpoch(0, st.Time), Reason: "bench", Since: st.Time}
		r.grants[i] = protocol.Grant{Unit: i, Epoch: owner.Epoch}
		txns[i] = r.group.ClaimTxn(protocol.Claim{Unit: i, Owner: owner, Self: joined[0]})
	}
	r.apply(ctx, txns, func(i int, v registry.Version) { r.grants[i].Version = v })
}

// apply applies transactions, and tells the version that each of them gave its first put.
func (r *registryRun) apply(ctx context.Context, txns []registry.Txn, done func(i int, v registry.Version)) {
	results, err := r.rf.Registry().Apply(ctx, txns)
	for i := range results {
		if results[i].Err == nil {
			done(i, results[i].Versions[0])
		}
		err = errors.Join(err, results[i].Err)
	}
	script.Check(err)
}

// enterBare enters the request of the batched checkpoints, sent by the store's client alone; nil where that is not known.
func (r *registryRun) enterBare(ctx context.Context) *Entry {
	sends := make([]hook.Requests, r.Callers)
	for i := range sends {
		txns := make([]registry.Txn, r.Batch)
		for j := range txns {
			unit := i*r.Batch + j
			txns[j] = r.commit(unit)
			txns[j].Checks = txns[j].Checks[:1] // it is sent many times, and the other is on what it changes
		}
		for _, ctx := range []context.Context{ctx, sends[i].Record(ctx)} { // the first is another request where no checkpoint is there yet
			r.apply(ctx, txns, func(int, registry.Version) {})
		}
		if sends[i].Len() == 0 {
			return nil
		}
	}
	return r.Add(Entry{Name: "the same request, issued bare", Unit: "checkpoints/s", Turn: func(t *Turn) float64 {
		return float64(r.Batch) * Callers(r.Callers, r.For, &t.Latency, func(i int) { script.Check(sends[i].Send(ctx)) })
	}})
}

// commit is the transaction with which a member stores the next checkpoint of a unit.
func (r *registryRun) commit(unit int) registry.Txn {
	return r.group.CommitTxn(r.grants[unit], protocol.Checkpoint{
		Positions: []protocol.Position{{Partition: unit, Next: r.next[unit]}}, Member: registryMember, Updated: time.Now().UnixMilli(),
	}, r.versions[unit])
}

// commits stores the next checkpoints of units from one on.
func (r *registryRun) commits(ctx context.Context, from int, txns []registry.Txn) {
	for i := range txns {
		r.next[from+i]++
		txns[i] = r.commit(from + i)
	}
	r.apply(ctx, txns, func(i int, v registry.Version) { r.versions[from+i] = v })
}

// look reads the versions of all checkpoints, which the bare requests have changed.
func (r *registryRun) look(ctx context.Context) {
	for i, u := range script.Must(r.group.Load(ctx, true)).Units {
		r.versions[i] = u.CheckpointVersion
	}
}

// write writes checkpoints for a while, each caller those of its own units.
func (r *registryRun) write(ctx context.Context, t *Turn, callers, batch int) float64 {
	r.look(ctx)
	txns := make([]registry.Txn, callers*batch)
	return float64(batch) * Callers(callers, r.For, &t.Latency, func(i int) { r.commits(ctx, i*batch, txns[i*batch:(i+1)*batch]) })
}
