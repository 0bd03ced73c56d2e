package redisregistry

import (
	"strings"
	"sync"
)

// guard stands between the client library and a server that may be anybody: the library panics at an
// answer that it does not expect, in a goroutine of its own, which would end the process. So an answer
// has to be to a request, and in the form of which the library takes parts without looking.
type guard struct {
	requests, replies frames // each used by the one who writes, or reads

	mu   sync.Mutex // of the rest; held for work in memory only
	left bool       // the last request ends subscriptions
	due  []due      // requests that are not answered
}

// due is a request.
type due struct {
	confirms int  // the channels to subscribe to, of which each is confirmed
	begun    bool // one of them was
	master   bool // it asks a Sentinel for an address
	pong     bool // it stands behind the end of subscriptions, which is answered by pushes only
}

func newGuard() *guard {
	g := new(guard)
	g.requests.free, g.requests.deliver = true, g.asked
	g.replies.deliver = g.heard
	return g
}

var subscribes = map[string]bool{"subscribe": true, "psubscribe": true, "ssubscribe": true}

// asked takes note of a request that is about to be sent.
func (g *guard) asked(m *message) error {
	verb := strings.ToLower(m.text(0))
	g.mu.Lock()
	defer g.mu.Unlock()
	// In RESP2 what is pushed looks like an answer. The library falls back to it when RESP3 is refused.
	if verb == "hello" && m.text(1) != "3" {
		return refused("it knows no RESP3")
	}
	left := g.left
	if g.left = strings.HasSuffix(verb, "unsubscribe"); g.left {
		return nil
	}
	d := due{
		master: verb == "sentinel" && strings.EqualFold(m.text(1), "get-master-addr-by-name"),
		pong:   left && verb == "ping",
	}
	if subscribes[verb] {
		d.confirms = m.parts - 1
	}
	g.due = append(g.due, d)
	return nil
}

// heard looks at a message of the server's.
func (g *guard) heard(m *message) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.kind == '>' {
		return g.pushed(m)
	}
	if len(g.due) == 0 {
		return refused("an answer that nobody asked for")
	}
	head := g.due[0]
	if g.due = g.due[1:]; len(g.due) == 0 {
		g.due = nil
	}
	failed := m.kind == '-' || m.kind == '!'
	switch {
	case head.begun:
		return refused("%.20q among the confirmations of a subscription", m.text(0))
	case head.pong && (m.kind != '+' || m.text(0) != "PONG"):
		return refused("%.20q in place of the answer to a PING", m.text(0))
	case failed:
		return checkError(m.text(0), head.confirms > 0)
	case head.confirms > 0:
		return refused("%.20q in place of the confirmation of a subscription", m.text(0))
	case head.master && m.kind == '*' && m.parts != 2 && m.parts != -1:
		return refused("the address of a master in %d parts", m.parts)
	}
	return nil
}

func (g *guard) pushed(m *message) error {
	switch what := m.text(0); {
	case strings.HasSuffix(what, "unsubscribe"):
		if len(g.due) > 0 && g.due[0].begun { // the library counts it as one of the confirmations
			return refused("the end of a subscription among the confirmations of others")
		}
	case subscribes[what]:
		if m.parts != 3 || len(g.due) == 0 || g.due[0].confirms == 0 {
			return refused("the confirmation of a subscription that nobody asked for")
		}
		g.due[0].begun = true
		if g.due[0].confirms--; g.due[0].confirms == 0 {
			g.due = g.due[1:]
		}
	case what == "message":
		if n := sentinelWords[m.text(1)]; n > 0 && strings.Count(m.text(2), " ") < n-1 {
			return refused("an event %s of %.40q; expected %d words", m.text(1), m.text(2), n)
		}
	}
	return nil
}

// sentinelWords is how many words the library takes from the events of Sentinels.
var sentinelWords = map[string]int{
	"+sentinel": 4, "+switch-master": 5, "+reboot": 4, "+slave": 6, "+sdown": 2, "-sdown": 2,
}

// checkError looks at the refusals that the library reads.
func checkError(text string, subscribing bool) error {
	words := strings.Count(text, " ") + 1
	switch {
	case strings.HasPrefix(text, "MOVED") && words < 3, strings.HasPrefix(text, "ASK") && words < 3, strings.HasPrefix(text, "REDIRECT") && words < 2:
		return refused("%.40q, which names no other server", text)
	case subscribing && text == "QUEUED":
		return refused("a subscription that is queued")
	}
	return nil
}
