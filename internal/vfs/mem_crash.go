//go:build linux

package vfs

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash is the machine after a power loss at this moment and a reboot: a new one, with another
// boot id, no locks and no mappings. The old one goes on unharmed, so that a test can look at
// many crashes of one run.
//
// Of what was not made durable anything may survive: of each directory a prefix of its
// operations; of each file the old or the new size, and of each 4 KiB block that was written or
// stored into since the last SyncData the old content, the new one, one in between, or a mix of
// their 512-byte sectors. A disk that had one of them already may still go back to an earlier one.
func (f *Mem) Crash() *Mem {
	next := f.m.crash()
	next.boot = next.newBoot()
	return next.start()
}

// CrashSameBoot is Crash without a reboot: the file system had an error and was mounted again, or
// a snapshot of its disk was attached. No process has it open any more, and what was not made durable,
// stores into mappings among it, may be gone or old, but the host has not been down: the boot id is
// the same.
func (f *Mem) CrashSameBoot() *Mem {
	next := f.m.crash()
	next.boot = f.m.boot
	return next.start()
}

// crash copies a machine as its disk has it.
func (m *machine) crash() *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &machine{rng: rand.New(rand.NewPCG(m.rng.Uint64(), m.rng.Uint64())), past: rand.New(rand.NewPCG(m.past.Uint64(), 2)), kind: m.kind, capacity: m.capacity}
	c := cloner{seen: map[inode]inode{}, ops: map[*dirOp]*dirOp{}}
	next.root = c.dir(m.root)
	for _, d := range c.dirs {
		d.flush(next.rng.IntN(len(d.pending) + 1))
	}
	for _, d := range c.dirs {
		d.live, d.pending = maps.Clone(d.durable), nil
	}
	for _, n := range c.files {
		n.crash(next.rng, next.past)
	}
	return next
}

// cloner copies a tree, in the same order every time.
type cloner struct {
	seen  map[inode]inode
	ops   map[*dirOp]*dirOp
	dirs  []*dirNode
	files []*fileNode
}

func (c *cloner) dir(d *dirNode) *dirNode {
	if n, ok := c.seen[d]; ok {
		return n.(*dirNode)
	}
	n := newDirNode(d.perm)
	n.modTime = d.modTime
	c.seen[d] = n
	c.dirs = append(c.dirs, n)
	c.entries(n.live, d.live)
	c.entries(n.durable, d.durable)
	for _, op := range d.pending {
		n.pending = append(n.pending, c.op(op))
	}
	return n
}

func (c *cloner) entries(dst, src map[string]inode) {
	for _, name := range sortedKeys(src) {
		dst[name] = c.inode(src[name])
	}
}

func (c *cloner) op(op *dirOp) *dirOp {
	if n, ok := c.ops[op]; ok {
		return n
	}
	n := &dirOp{}
	c.ops[op] = n
	for _, ch := range op.changes {
		n.changes = append(n.changes, change{c.dir(ch.dir), ch.name, c.inode(ch.to)})
	}
	return n
}

func (c *cloner) inode(n inode) inode {
	switch n := n.(type) {
	case *dirNode:
		return c.dir(n)
	case *fileNode:
		return c.file(n)
	}
	return nil
}

func (c *cloner) file(f *fileNode) *fileNode {
	if n, ok := c.seen[f]; ok {
		return n.(*fileNode)
	}
	f.findStores()
	n := newFileNode(f.perm)
	n.modTime, n.size, n.diskSize = f.modTime, f.size, f.diskSize
	n.disk, n.dirty, n.past = maps.Clone(f.disk), maps.Clone(f.dirty), maps.Clone(f.past)
	if f.shm == nil {
		n.cache = maps.Clone(f.cache)
	} else {
		for i := range n.dirty { // the rest of the cache does not survive anyway
			store(n.cache, i, f.get(i))
		}
	}
	c.seen[f] = n
	c.files = append(c.files, n)
	return n
}

// crash leaves only what is on the disk, after some of what was dirty got there.
func (n *fileNode) crash(rng, past *rand.Rand) {
	fate := fates[rng.IntN(len(fates))]
	for _, i := range sortedKeys(n.dirty) {
		fate(n, i, rng, past)
	}
	if n.size != n.diskSize && rng.IntN(2) == 0 {
		n.diskSize = n.size
	}
	n.size = n.diskSize
	for i, b := range n.disk {
		keep := n.size - i*blockSize
		if keep < blockSize {
			cut := *b
			clear(cut[max(keep, 0):])
			store(n.disk, i, &cut)
		}
	}
	n.cache, n.dirty, n.past = maps.Clone(n.disk), map[int64]struct{}{}, map[int64][]*block{}
}

// fates are what may happen to the dirty blocks of one file: all lost, all written, each one
// alone, and each sector alone. The plain ones are the likeliest on real disks.
var fates = []func(n *fileNode, i int64, rng, past *rand.Rand){
	func(*fileNode, int64, *rand.Rand, *rand.Rand) {},
	func(n *fileNode, i int64, _, _ *rand.Rand) { store(n.disk, i, n.cache[i]) },
	either,
	either,
	torn,
}

// either leaves a block as it was, as it is, or as it was in between.
func either(n *fileNode, i int64, rng, past *rand.Rand) {
	if rng.IntN(2) > 0 {
		store(n.disk, i, n.cache[i])
	} else if seen := n.past[i]; len(seen) > 0 && past.IntN(2) == 0 {
		store(n.disk, i, seen[past.IntN(len(seen))])
	}
}

// torn is either for each sector alone.
func torn(n *fileNode, i int64, rng, past *rand.Rand) {
	mix := *cmp.Or(n.disk[i], &zeroBlock)
	for s := 0; s < blockSize; s += sectorSize {
		from := n.disk[i]
		if rng.IntN(2) == 0 {
			from = n.cache[i]
		} else if seen := n.past[i]; len(seen) > 0 && past.IntN(2) == 0 {
			from = seen[past.IntN(len(seen))]
		}
		copy(mix[s:s+sectorSize], cmp.Or(from, &zeroBlock)[s:])
	}
	store(n.disk, i, &mix)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
