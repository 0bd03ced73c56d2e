package sim

// A receiver keeps the highest token of each key and refuses lower ones, and so knows nothing of shards or owners. This
// file is that receiver.

// token is what comes with a record: the epoch of the owner, and the number of the hand-out in its process.
type token struct {
	epoch int64
	n     int
}

func (a token) below(b token) bool { return a.epoch < b.epoch || a.epoch == b.epoch && a.n < b.n }

// handed is the last hand-out by an owner.
type handed struct {
	token
	by *node
}

// handOut takes a record to the receiver: from the owner it is taken, and after that none from another node.
func (j *judge) handOut(n *node, r *record) {
	*n.handouts++
	t, last := token{n.epoch, *n.handouts}, j.tokens[r.line]
	switch {
	case j.w.rolled: // its epochs come again
	case j.w.current(n):
		if !last.below(t) {
			j.w.fail("a receiver refuses %v of %v from its owner, %s node %d: it has %v", t, r.Origin, j.w.name, n.id, last.token)
		}
		j.tokens[r.line] = handed{t, n}
	case last.by != nil && last.by != n && last.by.w.current(last.by) && !last.by.w.ended() && last.below(t):
		j.w.fail("a receiver takes %v of %v from %s node %d, which does not own it any more: it has %v", t, r.Origin, j.w.name, n.id, last.token)
	}
}
