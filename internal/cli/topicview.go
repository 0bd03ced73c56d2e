package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/api"
)

// retentionText is what bounds a topic, in words.
func retentionText(r api.Retention) string {
	var bounds []string
	if r.Bytes > 0 {
		bounds = append(bounds, thousands(r.Bytes)+" bytes")
	}
	if r.AgeMS > 0 {
		bounds = append(bounds, (time.Duration(r.AgeMS) * time.Millisecond).String())
	}
	if len(bounds) == 0 {
		return "all is kept"
	}
	text := "about " + strings.Join(bounds, ", or ")
	if r.Force {
		return text + ", processed or not"
	}
	return text + ", and what a group has not processed"
}

func renderTopic(r *report, t api.Topic) {
	r.line("topic      %s", r.paint(bold, t.Name))
	r.line("created    %s", string(t.Created))
	switch {
	case t.Moved == nil:
	case t.Moved.Done:
		r.line("moved      to %s; nothing is produced or consumed here any more", t.Moved.To)
	default:
		r.line("moving     to %s: run the cut-over again, or take it back with --abandon", t.Moved.To)
	}
	if t.Internal != "" {
		r.line("part of    %s, which alone writes to it", t.Internal)
	}
	r.line("router     %s, hash %s", string(t.Router), string(t.Hash))
	r.line("retention  %s", retentionText(t.Retention))
	if t.Altering {
		r.line("           not everywhere yet: set it again to finish that")
	}
	names := make([]string, len(t.Groups))
	for i, g := range t.Groups {
		names[i] = fmt.Sprintf("%s (%s)", g.Group, g.State)
		if g.Members > 0 {
			names[i] = fmt.Sprintf("%s (%s, %s)", g.Group, g.State, plural(g.Members, "member"))
		}
	}
	r.line("groups     %s", dash(strings.Join(names, ", ")))
	r.line("")
	if len(t.Storage) > 1 {
		renderStorages(r, &t)
	}
	var rows [][]cell
	for _, s := range t.Storage {
		for _, p := range s.Partitions {
			rows = append(rows, []cell{
				left(s.Name), number(s.Index), number(p.Partition), number(p.First), number(p.Next), number(p.Kept), left(p.State),
			})
		}
	}
	r.table([]string{"STORAGE", "INDEX", "PARTITION", "FIRST", "NEXT", "KEPT", "STATE"}, rows)
	r.line("%s kept at most", plural(t.Kept, "record"))
}

// renderStorages shows the storage topics of a topic that grew, and the groups that finished each.
func renderStorages(r *report, t *api.Topic) {
	tableOf(r, []string{"INDEX", "PARTITIONS", "K", "STATE", "FINISHED BY", "LAG OF"}, t.Storage, func(s api.StorageTopic) []cell {
		if s.Retired() {
			return []cell{number(s.Index), right("-"), right("-"), left(s.State), left("-"), left("-")}
		}
		var over, behind []string
		for _, g := range t.Groups {
			if s.Index >= len(g.Storage) { // the group can't be read
				continue
			}
			if at := g.Storage[s.Index]; at.Finished {
				over = append(over, g.Group)
			} else if at.Lag > 0 {
				behind = append(behind, fmt.Sprintf("%s (%s)", g.Group, thousands(at.Lag)))
			}
		}
		return []cell{number(s.Index), number(len(s.Partitions)), number(s.K), left(s.State), left(dash(strings.Join(over, ", "))), left(dash(strings.Join(behind, ", ")))}
	})
	r.line("")
}
