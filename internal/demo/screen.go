package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
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
		_, _ = io.WriteString(s.w, text+"\n") // a story that nobody reads is still judged
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

// cast is who plays.
func (st *stage) cast() string {
	if st.InProcess {
		return fmt.Sprintf("%d consumers in this one process (crashes are played)", st.Consumers)
	}
	return fmt.Sprintf("%d processes", st.Consumers)
}

// describe names a consumer.
func (st *stage) describe(who string) string {
	if a := st.actors[who]; a != nil && a.pid() != 0 {
		return fmt.Sprintf("%s (pid %d)", who, a.pid())
	}
	return who + " (played)"
}

// showOwners shows who has what.
func (st *stage) showOwners(ctx context.Context) error {
	g, err := st.info(ctx)
	if err != nil {
		return err
	}
	units := make(map[string][]int)
	for who := range st.actors {
		units[who] = []int{}
	}
	for _, u := range g.Units {
		units[u.Owner] = append(units[u.Owner], u.Unit)
	}
	st.result.Owners = append(st.result.Owners, Owners{Scene: st.screen.scenes, Partitions: units})
	for i := range st.Consumers {
		who := name(i)
		a := st.actors[who]
		if a == nil {
			st.screen.say("%s  %s", st.screen.paint("31", who), st.screen.paint("2", "dead"))
			continue
		}
		where := ""
		if a.pid() != 0 {
			where = st.screen.paint("2", fmt.Sprintf("  pid %d", a.pid()))
		}
		bar := st.bar(g.Units, who)
		st.screen.say("%s  %s  %s%s", st.screen.paint(tint(i), who), bar, st.shorten(units[who]), where)
	}
	return nil
}

func tint(i int) string { return []string{"32", "36", "35", "33", "34"}[i%5] }

// bar draws the partitions in their order, those of one consumer filled.
func (st *stage) bar(units []ringfence.UnitInfo, who string) string {
	if len(units) > 64 {
		return ""
	}
	var b strings.Builder
	for _, u := range units {
		if u.Owner == who {
			b.WriteString("■")
		} else {
			b.WriteString("·")
		}
	}
	return st.screen.paint(tint(int(who[0]-'A')), b.String())
}

func (st *stage) shorten(units []int) string {
	switch {
	case len(units) == 0:
		return "stands by"
	case len(units) > 16:
		return fmt.Sprintf("%d partitions", len(units))
	}
	return "partitions " + strings.Trim(fmt.Sprint(units), "[]")
}

// verdict shows what the checker found.
func (st *stage) verdict(histories int) {
	r := &st.result
	st.screen.scene("The judgement: a checker reads the histories of all %d that took part", histories)
	line := func(good bool, format string, args ...any) {
		mark := st.screen.paint("32", "ok  ")
		if !good {
			mark = st.screen.paint("31", "BAD ")
		}
		st.screen.say("%s %s", mark, fmt.Sprintf(format, args...))
	}
	line(r.Produced == r.Delivered, "%d records acknowledged, %d delivered", r.Produced, r.Delivered)
	line(r.Lost == 0, "%d lost", r.Lost)
	line(r.Reordered == 0, "%d reordered within their key", r.Reordered)
	line(r.Duplicated <= r.InFlight, "%d delivered twice: no more than the %d in flight when an owner was lost", r.Duplicated, r.InFlight)
	line(r.StaleCommits > 0 && r.StaleRefused == r.StaleCommits, "%d of %d commits under an old epoch refused", r.StaleRefused, r.StaleCommits)
	line(len(r.Broken) == 0, "%d broken promises in %d claims and %d clean handoffs", len(r.Broken), r.Takeovers, r.Handoffs)
	for _, b := range r.Broken {
		st.screen.say("     %s", b)
	}
}

// ms is a short time for people.
func ms(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
