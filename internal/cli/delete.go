package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// deleteFlags are those of the commands that delete.
type deleteFlags struct{ force, dryRun, yes bool }

func (f *deleteFlags) register(fl *pflag.FlagSet, force string) {
	fl.BoolVar(&f.force, "force", false, force)
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show what would be deleted")
	fl.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

// remove deletes what d names, unless it is a dry run or the answer to the question is no, and says so.
func (a *app) remove(ctx context.Context, f *deleteFlags, d api.Deletion, question string, remove func() error) error {
	if !f.dryRun {
		if !f.yes && !a.asks() {
			return fmt.Errorf("%s %q was not deleted: without a terminal --yes is needed: %w", d.What, d.Name, fault.Invalid)
		}
		if err := a.agreed(ctx, f.yes, question, fmt.Sprintf("%s %q was not deleted", d.What, d.Name)); err != nil {
			return err
		}
		if err := remove(); err != nil {
			return err
		}
		d.Deleted = true
	}
	return emit(a, d, func(r *report, d api.Deletion) {
		verb := "deleted"
		if !d.Deleted {
			verb = "would delete"
		}
		r.line("%s %s %s%s", verb, d.What, d.Name, withRecords(d))
		if len(d.Groups) > 0 {
			r.line("%s the progress of %s", verb, namesOf("group", d.Groups))
		}
	})
}

// withRecords says how many records go with a topic, if that is known.
func withRecords(d api.Deletion) string {
	if d.Records == nil {
		return ""
	}
	return " with about " + plural(*d.Records, "record")
}

// namesOf is "group a" or "groups a, b".
func namesOf(what string, names []string) string {
	if len(names) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(names, ", ")
}

// agreed asks unless the answer is yes already. The error says what was not done.
func (a *app) agreed(ctx context.Context, yes bool, question, undone string) error {
	if yes || a.confirm(ctx, question) {
		return nil
	}
	return fmt.Errorf("%s: the answer was not yes: %w", undone, fault.NotDone)
}

// asks says whether a person can be asked.
func (a *app) asks() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// confirm asks a person, for as long as ctx; without a terminal it is true.
func (a *app) confirm(ctx context.Context, question string) bool {
	if !a.asks() {
		return true
	}
	fmt.Fprint(a.stderr, question+" [y/N] ")
	answer, err := readUntil(ctx, func() (string, error) { return bufio.NewReader(a.stdin).ReadString('\n') })
	if err != nil {
		fmt.Fprintln(a.stderr) // the question's line has no end yet
		return false
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
