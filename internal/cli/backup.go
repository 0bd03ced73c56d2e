package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/backup"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) backupCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "backup --to FILE|DIR|-",
		Short: "Copy a data directory that is in use",
		Long: `Copy records and registry of a data directory, as they stand at one moment near the end of
the copying, while processes go on with it. FILE is a new archive (tar, compressed with
zstd), DIR a directory that is empty or, with a slash at its end, not there yet, and "-"
standard output. "ringfence restore" puts the copy back.

Stores that are no directory have backups of their own. Copies of damaged bytes are made,
and named; the exit code is 1 then.`,
		Example: `  ringfence backup --to /backup/ringfence-$(date +%F).tar.zst
  ringfence backup --to - | ssh vault 'cat > ringfence.tar.zst'`,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			from, err := a.directories()
			if err != nil {
				return err
			}
			if to == "-" && isTerminal(a.stdout) {
				return fmt.Errorf("--to -: standard output is a terminal; expected a file or a pipe: %w", fault.Invalid)
			}
			b, err := a.withBar("copied", func(o *backup.Options) (*api.Backup, error) {
				if to == "-" {
					return backup.Stream(ctx, from, a.stdout.Exact(), o)
				}
				return backup.Save(ctx, from, to, o)
			})
			if err != nil {
				return err
			}
			for _, d := range b.Damage {
				fmt.Fprintln(a.stderr, a.stderr.Line("damaged: "+d))
			}
			if to == "-" {
				fmt.Fprintln(a.stderr, backupText("backed up", b))
			} else {
				err = emit(a, b, func(r *report, b *api.Backup) { r.line("%s", backupText("backed up", b)) })
			}
			if n := len(b.Damage); n > 0 {
				err = errors.Join(err, fmt.Errorf("the backup is whole; what it copied has %s: %w", plural(n, "damaged place"), fault.Corrupt))
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "new `file`, directory, or - for standard output")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func (a *app) restoreCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "restore --from FILE|DIR|-",
		Short: "Put a backup into a data directory that is empty or not there yet",
		Long: `Put a backup into the data directory (--data), which must be empty or not there yet. Every
checksum is verified first; from a backup that is torn or damaged nothing is restored.

Consumers go on from their checkpoints in the backup: what they processed later, they
process again. What was produced later is not there.`,
		Example: `  ringfence restore --from /backup/ringfence-2026-11-27.tar.zst --data /var/lib/ringfence
  ssh vault 'cat ringfence.tar.zst' | ringfence restore --from - --data /var/lib/ringfence`,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			b, err := a.withBar("restored", func(o *backup.Options) (*api.Backup, error) {
				if from == "-" {
					return readUntil(ctx, func() (*api.Backup, error) { return backup.RestoreStream(ctx, a.stdin, a.global.data, o) })
				}
				return backup.Restore(ctx, from, a.global.data, o)
			})
			if err != nil {
				return err
			}
			return emit(a, b, func(r *report, b *api.Backup) { r.line("%s", backupText("restored into "+a.global.data, b)) })
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "backup: a `file`, a directory, or - for standard input")
	_ = cmd.MarkFlagRequired("from")
	cmd.PreRunE = checked(func() error {
		if a.global.log+a.global.registry != "" {
			return fmt.Errorf("a backup is restored into --data; expected no --log and no --registry (RINGFENCE_LOG, RINGFENCE_REGISTRY): %w", fault.Invalid)
		}
		return nil
	})
	return cmd
}

// directories are those that a backup is made of.
func (a *app) directories() (backup.Source, error) {
	from := backup.Source{Log: a.global.data, Registry: a.global.data}
	for _, s := range []struct {
		flag, url string
		dir       *string
	}{{"log", a.global.log, &from.Log}, {"registry", a.global.registry, &from.Registry}} {
		if s.url == "" {
			continue
		}
		if *s.dir = directoryOf(s.url); *s.dir == "" {
			return from, fmt.Errorf("--%s %s is no directory; a backup copies directories, and other stores have tools of their own: %w", s.flag, logName(s.url), fault.Invalid)
		}
	}
	return from, nil
}

// withBar shows how far work on a backup got.
func (a *app) withBar(done string, work func(*backup.Options) (*api.Backup, error)) (*api.Backup, error) {
	bar, ticker := a.newProgress()
	defer ticker.Stop()
	defer bar.clear()
	return work(&backup.Options{Version: buildVersion(), Progress: func(bytes int64) {
		select {
		case <-ticker.C:
			bar.show(bytes, "bytes "+done)
		default:
		}
	}})
}

func backupText(what string, b *api.Backup) string {
	return fmt.Sprintf("%s: %s with %s, %s, %s; %s bytes in %s, as of %s", what,
		plural(b.Topics, "topic"), plural(b.Records, "record"), plural(b.Groups, "group"), plural(b.Subscriptions, "subscription"),
		thousands(b.Bytes), plural(b.Files, "file"), b.Taken)
}
