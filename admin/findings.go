package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/spell"
)

const (
	// behindAfter is how long the oldest record of a group with living owners may wait before that is a finding.
	behindAfter = 10 * time.Minute
	// failingAfter is how long a record may fail before that is one.
	failingAfter = 30 * time.Second
)

func topicFindings(t *api.TopicSummary) (all []api.Finding) {
	f := api.Finding{What: "topic", Name: t.Name}
	switch {
	case t.Damaged != "":
		f.Severity, f.Kind, f.Cause, f.Command = api.Critical, api.FoundUnreadable, "its definition can't be used: "+t.Damaged, "ringfence topic describe "+t.Name
	case t.Moved != nil && !t.Moved.Done:
		f.Severity, f.Kind, f.Cause = api.Critical, api.FoundUnfinished, fmt.Sprintf("its cut-over to %s was begun and has not ended: give the same order again", t.Moved.To)
		f.Command = fmt.Sprintf("ringfence topic mirror FROM-URL TO-URL %s --cut-over", t.Name)
	default:
		return nil
	}
	return append(all, f)
}

// checkFindings says what the registry has forgotten of a topic: it went back.
func checkFindings(t *api.TopicCheck) []api.Finding {
	f := api.Finding{Severity: api.Critical, Kind: api.FoundForgotten, What: "topic", Name: t.Topic, Command: "ringfence topic repair " + t.Topic}
	switch {
	case t.Problem != "":
		f.Kind, f.Cause, f.Command = api.FoundProblem, t.Problem, "ringfence topic check "+t.Topic
	case len(t.Differences) > 0:
		f.Cause = "the log has what the registry does not know: " + strings.Join(t.Differences, "; ")
	default:
		return nil
	}
	return []api.Finding{f}
}

// subject is a group, or a subscription with its group, in findings.
type subject struct {
	what, name string
	deliver    string // the command that starts a member, and never one that takes records to print them; "": there is none
	resume     string
	seek       string // the command that goes to a place
}

func (s *survey) finding(of *subject, severity api.Severity, kind string, since api.Time, command, format string, args ...any) api.Finding {
	return api.Finding{Severity: severity, Kind: kind, What: of.what, Name: of.name, Cause: fmt.Sprintf(format, args...), Since: since, Command: command}
}

func (s *survey) ofGroup(g *api.Group) []api.Finding {
	of := &subject{
		what: "group", name: g.Name, deliver: fmt.Sprintf("ringfence consume %s --group %s --exec COMMAND", g.Topic, g.Name),
		resume: "ringfence group resume " + g.Name, seek: "ringfence group seek " + g.Name,
	}
	if g.Damaged != "" {
		return []api.Finding{s.finding(of, api.Critical, api.FoundUnreadable, "", "ringfence group describe "+g.Name, "it can't be read: %s", g.Damaged)}
	}
	all := s.ofUnits(of, g)
	if g.Paused {
		return append(all, s.finding(of, api.Warning, api.FoundPaused, g.PausedAt, of.resume, "it is paused%s; %s", by(g.PausedBy), waits(g)))
	}
	if part := partitionsOf(g, func(u *api.Unit) bool { return u.Paused }); part != "" {
		all = append(all, s.finding(of, api.Warning, api.FoundPaused, g.PausedAt, of.resume, "%s paused%s", part, by(g.PausedBy)))
	}
	return append(all, s.ofOwners(of, g)...)
}

func by(user string) string {
	if user == "" {
		return ""
	}
	return " by " + user
}

func waits(g *api.Group) string {
	if g.Lag == 1 {
		return "1 record waits"
	}
	return spell.Plural(g.Lag, "record") + " wait"
}

// ofOwners says where records wait for a member, or behind one.
func (s *survey) ofOwners(of *subject, g *api.Group) []api.Finding {
	if g.Lag == 0 {
		return nil
	}
	since := s.ago(g.OldestMS)
	if len(g.Members) == 0 {
		away := ""
		if len(g.Awaited) > 0 {
			away = fmt.Sprintf("; static member %s is away", g.Awaited[0])
		}
		return []api.Finding{s.finding(of, api.Critical, api.FoundNoMember, since, of.deliver, "%s, and it has no member%s", waits(g), away)}
	}
	ownerless := func(u *api.Unit) bool { return u.Lag > 0 && noOwner(u) }
	if part := partitionsOf(g, ownerless); part != "" {
		oldest, why := int64(0), ""
		for i := range g.Units {
			if u := &g.Units[i]; ownerless(u) {
				oldest, why = max(oldest, u.OldestMS), u.Why
			}
		}
		return []api.Finding{s.finding(of, api.Critical, api.FoundNoOwner, s.ago(oldest), "ringfence group describe "+g.Name, "records wait in %s without a living owner: %s", part, why)}
	}
	describe := "ringfence group describe " + g.Name
	if f := g.Failing; f != nil && s.now.Sub(f.Since.Time()) >= failingAfter {
		return []api.Finding{s.finding(of, api.Warning, api.FoundFailing, f.Since, describe, "the handler of %s has failed %s at offset %d of %s%s, and those of its key wait: %q; %s in all",
			f.Member, spell.Plural(int64(f.Attempts), "time"), f.Offset, place(api.Position{Storage: f.Storage, Partition: f.Partition}), ofKey(f), f.Why, waits(g))}
	}
	if g.OldestMS < behindAfter.Milliseconds() {
		return nil
	}
	if part := partitionsOf(g, s.standsStill); part != "" {
		return []api.Finding{s.finding(of, api.Warning, api.FoundBehind, since, describe, "%s, and %s stands still: its owner lives, and has stored no progress for %s; a handler may hang", waits(g), part, behindAfter)}
	}
	return []api.Finding{s.finding(of, api.Warning, api.FoundBehind, since, "ringfence top "+g.Name, "%s, although each has an owner, and all of these move on: more members or a faster handler help", waits(g))}
}

func ofKey(f *api.FailingRecord) string {
	if f.Key == "" {
		return ""
	}
	return fmt.Sprintf(" (key %q)", f.Key)
}

// standsStill reports whether the owner of a unit lives, and does not move.
func (s *survey) standsStill(u *api.Unit) bool {
	return u.Alive && u.OldestMS >= behindAfter.Milliseconds() && (u.StoredAt == "" || s.now.Sub(u.StoredAt.Time()) >= behindAfter)
}

// ofUnits says what is damaged or gone at checkpoints, and which members can't be read.
func (s *survey) ofUnits(of *subject, g *api.Group) (all []api.Finding) {
	for i := range g.Units {
		for _, p := range g.Units[i].Positions {
			switch {
			case p.Damaged != "":
				all = append(all, s.finding(of, api.Critical, api.FoundDamage, "", of.at(p, "WHERE"), "%s is damaged at its checkpoint: %s", place(p), p.Damaged))
			case p.Dropped > 0:
				all = append(all, s.finding(of, api.Critical, api.FoundDropped, "", of.at(p, fmt.Sprint(p.First)),
					"retention took %s below offset %d of %s before they were processed; nothing is read there before a seek", spell.Plural(p.Dropped, "record"), p.First, place(p)))
			}
		}
	}
	for i := range g.Members {
		if m := &g.Members[i]; m.Unreadable {
			all = append(all, s.finding(of, api.Warning, api.FoundMember, m.Joined, "", "the entry of member %s can't be read: it may be of another version; end it there", m.ID))
		}
	}
	return all
}

// at is the command that goes to an offset of a partition.
func (o *subject) at(p api.Position, where string) string {
	partition := fmt.Sprintf("--partition %d", p.Partition)
	switch {
	case p.Storage > 0 && o.what == "group":
		partition = fmt.Sprintf("--partition %d/%d", p.Storage, p.Partition)
	case p.Storage > 0:
		partition = fmt.Sprintf("--storage %d --partition %d", p.Storage, p.Partition)
	}
	return fmt.Sprintf("%s --to %s %s", o.seek, where, partition)
}

func place(p api.Position) string {
	if p.Storage > 0 {
		return fmt.Sprintf("partition %d/%d", p.Storage, p.Partition)
	}
	return fmt.Sprintf("partition %d", p.Partition)
}

// mostNamed is how many partitions a finding names.
const mostNamed = 8

// partitionsOf names the partitions of the units that are meant; "": there are none.
func partitionsOf(g *api.Group, meant func(*api.Unit) bool) string {
	var names []string
	more := 0
	for i := range g.Units {
		if !meant(&g.Units[i]) {
			continue
		}
		for _, p := range g.Units[i].Positions {
			if len(names) == mostNamed {
				more++
				continue
			}
			names = append(names, strings.TrimPrefix(place(p), "partition "))
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return "partition " + names[0]
	case more > 0:
		return fmt.Sprintf("partitions %s and %d more", strings.Join(names, ", "), more)
	}
	return "partitions " + strings.Join(names, ", ")
}

// ago is the time of a record of that age; 0: not known.
func (s *survey) ago(millis int64) api.Time {
	if millis <= 0 {
		return ""
	}
	return api.TimeOf(s.now.Add(-time.Duration(millis) * time.Millisecond))
}
