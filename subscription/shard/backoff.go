package shard

import "time"

// backoff bounds the attempts of a process by what is accepted while the receiver answers some, but refuses
// most for want of capacity: each refused attempt costs the receiver as well, and would keep it overloaded. A
// second begins at most twice as many attempts as the second before had accepted, and a few more: so the
// receiver is asked for a little more than it gives, and gets all it can take within seconds. Refusals for
// another reason than load, such as one key that always fails, bound nothing while they are the lesser part.
// Processes need no agreement: each sees how its own attempts fare.
//
// It is the client-side throttling of Beyer, Jones, Petoff, Murphy (ed.), Site Reliability Engineering
// (O'Reilly 2016), chapter 21, with a rate in the place of a probability: an attempt that may not begin is
// not dropped here, it waits.
//
// Its fields are guarded by the mu of its rate.
type backoff struct {
	bound    float64 // attempts a second; 0: none
	accepted int     // answers since the window began, of any other kind than an outage
	refused  int     // outages since then
	since    time.Time
	timer    *time.Timer // of the window; nil: nothing was refused lately
}

const (
	backoffWindow  = time.Second
	backoffRefused = 10 // in a window, at least: fewer are no burden
	backoffFloor   = 10 // attempts a second that nothing takes away
)

// answered records the end of an attempt that the circuit did not take for an outage.
func (t *rate) answered(refused bool) {
	if !refused && !t.watching.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if t.backoff.timer == nil {
		t.watching.Store(true)
		t.backoff.since = time.Now()
		t.backoff.timer = time.AfterFunc(backoffWindow, t.weigh)
	}
	if refused {
		t.backoff.refused++
	} else {
		t.backoff.accepted++
	}
}

// weigh ends a window, and sets the bound of the next one.
func (t *rate) weigh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.backoff
	if t.ended || e.timer == nil {
		return
	}
	now := time.Now()
	seconds := now.Sub(e.since).Seconds()
	most := 2*float64(e.accepted)/seconds + backoffFloor
	switch {
	case e.bound == 0 && (e.refused < backoffRefused || e.refused <= e.accepted):
		most = 0
	case e.bound == 0:
		t.log.Warn("fewer deliveries are tried: most are refused for want of capacity", "accepted", e.accepted, "refused", e.refused, "attempts_per_second", int(most))
	case e.refused == 0 || e.refused <= e.accepted && float64(e.accepted+e.refused) < e.bound*seconds/2:
		most = 0 // it accepts all that comes, and more may come
		t.log.Warn("deliveries are tried without that bound again", "accepted", e.accepted, "refused", e.refused)
	}
	t.refill(now)
	e.bound = most
	t.heed(now)
	if most == 0 && e.refused == 0 {
		t.endBackoff()
		return
	}
	e.accepted, e.refused, e.since = 0, 0, now
	e.timer.Reset(backoffWindow)
}

// outage makes the rate forget what it saw: the circuit holds all back, and what comes after that is new.
func (t *rate) outage() {
	if !t.watching.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.refill(now)
	t.endBackoff()
	t.heed(now)
}

// endBackoff ends the bound and the windows; the caller holds mu.
func (t *rate) endBackoff() {
	if t.backoff.timer != nil {
		t.backoff.timer.Stop()
	}
	t.backoff = backoff{}
	t.watching.Store(false)
}
