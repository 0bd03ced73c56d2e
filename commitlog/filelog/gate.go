package filelog

import "sync/atomic"

const gateClosed = 1 << 62

// gate counts the calls under way, so that close can wait for them before it unmaps what they use.
type gate struct {
	n    atomic.Int64
	idle chan struct{}
}

func (g *gate) enter() bool {
	if g.n.Add(1) > gateClosed {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	if g.n.Add(-1) == gateClosed {
		select {
		case g.idle <- struct{}{}:
		default:
		}
	}
}

// close refuses further calls and waits for those under way. It is called once.
func (g *gate) close() {
	g.idle = make(chan struct{}, 1)
	if g.n.Add(gateClosed) == gateClosed {
		return
	}
	<-g.idle
}
