package verify

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/history"
)

// screen is where the story is shown; a nil writer shows nothing.
type screen struct {
	w       io.Writer
	control func(string) string // see Config
	began   time.Time
	scenes  int
}

func (s *screen) paint(code, text string) string {
	if s.control == nil {
		return text
	}
	return s.control("\x1b["+code+"m") + text + s.control("\x1b[0m")
}

func (s *screen) print(text string) {
	if s.w != nil {
		_, _ = io.WriteString(s.w, text+"\n") // a story without readers is still judged
	}
}

// scene begins a part of the story.
func (s *screen) scene(format string, args ...any) {
	s.scenes++
	head := fmt.Sprintf("%d  %s", s.scenes, fmt.Sprintf(format, args...))
	s.print("\n" + s.paint("1", head) + s.paint("2", fmt.Sprintf("   +%.1fs", time.Since(s.began).Seconds())))
}

func (s *screen) say(format string, args ...any) {
	s.print("   " + fmt.Sprintf(format, args...))
}

// line is one line of a verdict.
func (s *screen) line(good bool, format string, args ...any) {
	mark := s.paint("32", "ok  ")
	if !good {
		mark = s.paint("31", "BAD ")
	}
	s.say("%s %s", mark, fmt.Sprintf(format, args...))
}

// called names a consumer with its process.
func (d *groupDemo) called(name string) string {
	return fmt.Sprintf("%s (pid %d)", name, d.workers[name].proc.PID())
}

// showOwners shows the partitions of each consumer.
func (d *groupDemo) showOwners(g api.Group) {
	units := make(map[string][]int)
	for _, name := range d.alive() {
		units[name] = []int{}
	}
	for _, u := range g.Units {
		units[u.Owner] = append(units[u.Owner], u.Unit)
	}
	d.result.Owners = append(d.result.Owners, Owners{Scene: d.screen.scenes, Partitions: units})
	for i, name := range d.names() {
		p := d.workers[name].proc
		if p.Ended() {
			d.screen.say("%s  %s", d.screen.paint("31", name), d.screen.paint("2", "dead"))
			continue
		}
		where := d.screen.paint("2", fmt.Sprintf("  pid %d", p.PID()))
		bar := d.bar(g.Units, name)
		d.screen.say("%s  %s  %s%s", d.screen.paint(tint(i), name), bar, d.shorten(units[name]), where)
	}
}

func tint(i int) string { return []string{"32", "36", "35", "33", "34"}[i%5] }

// bar draws the partitions in their order, those of one consumer filled.
func (d *groupDemo) bar(units []api.Unit, name string) string {
	if len(units) > 64 {
		return ""
	}
	var b strings.Builder
	for _, u := range units {
		if u.Owner == name {
			b.WriteString("■")
		} else {
			b.WriteString("·")
		}
	}
	return d.screen.paint(tint(int(name[0]-'A')), b.String())
}

func (d *groupDemo) shorten(units []int) string {
	switch {
	case len(units) == 0:
		return "stands by"
	case len(units) > 16:
		return fmt.Sprintf("%d partitions", len(units))
	}
	return "partitions " + strings.Trim(fmt.Sprint(units), "[]")
}

// verdict shows what the judge found, and adds what only this story knows.
func (d *groupDemo) verdict(st *stage, report *history.Report) {
	r, o, line := &d.result, &st.outcome, st.screen.line
	r.InFlight, r.Refused, r.Takeovers, r.Handoffs = report.InFlight, report.Refused, report.Takeovers, report.Handoffs
	if r.StaleCommits == 0 {
		o.Broken = append(o.Broken, "the stopped consumer never wrote its stale checkpoints, so nothing shows that they are refused")
	}
	if r.StaleRefused < r.StaleCommits {
		o.Broken = append(o.Broken, fmt.Sprintf("%d checkpoints under an old epoch were not refused", r.StaleCommits-r.StaleRefused))
	}
	st.screen.scene("The judgement: a checker reads the histories of all that took part")
	line(o.Produced == o.Delivered, "%d records acknowledged, %d delivered", o.Produced, o.Delivered)
	line(o.Lost == 0, "%d lost", o.Lost)
	line(o.Reordered == 0, "%d reordered within their key", o.Reordered)
	line(o.Duplicated <= r.InFlight, "%d delivered twice: no more than the %d in flight when an owner was lost", o.Duplicated, r.InFlight)
	line(r.StaleCommits > 0 && r.StaleRefused == r.StaleCommits, "%d of %d commits under an old epoch refused", r.StaleRefused, r.StaleCommits)
	line(len(o.Broken) == 0, "%d broken promises in %d claims and %d clean handoffs", len(o.Broken), r.Takeovers, r.Handoffs)
}

// ms is a short time for people.
func ms(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
