package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/pipe"
)

type tailFlags struct {
	from       string
	partitions []string
	key        string
	max        int64
	idleExit   time.Duration
	print      string
}

func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	var target ringfence.SeekTarget
	var keyed bool
	cmd := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Look at records as they come, without a group",
		Long: `Print the records of a topic and wait for more, without a group: it keeps no progress,
owns no partition, and changes nothing. Each record is one line of JSON, as "consume"
prints it, with the epoch 0.

It begins with records that come from now on, or at --from: earliest, latest, an offset, a time
such as 2026-01-31T12:00:00Z, or an age such as -15m. The records of a partition, and
those of a key, come in their order.

SIGTERM, SIGINT and SIGHUP end it with exit code 0, and so does the end of the
partitions that were asked for, when they are sealed.`,
		Example: `  ringfence tail payments
  ringfence tail payments --from -15m --key acct-42
  ringfence tail payments --from earliest --idle-exit 1s | jq .value
  ringfence tail payments --from 4711 --partition 3`,
		ValidArgsFunction: first(a.offers(topicNames)),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "latest", "`where` to begin: earliest, latest, an offset, a time or an age")
	fl.StringSliceVar(&f.partitions, "partition", nil, "only this `partition`, or STORAGE/PARTITION; may be repeated")
	fl.StringVarP(&f.key, "key", "k", "", "only the records of this key")
	fl.Int64VarP(&f.max, "max", "n", 0, "exit after so many records (0: never)")
	fl.DurationVar(&f.idleExit, "idle-exit", 0, "exit when no record came for so long (0: never)")
	fl.StringVar(&f.print, "print", "json", "what is printed of a record: json, or value (its bytes and a newline)")
	noFlag(cmd, "follow", "it waits for more records until --idle-exit or --max")
	completeWith(cmd, "from", "earliest", "latest")
	completeWith(cmd, "print", "json", "value")
	cmd.PreRunE = checked(func() error {
		var err error
		if target, err = ringfence.ParseSeek(f.from); err != nil {
			err = fmt.Errorf("--from: %w", err)
		}
		keyed = fl.Changed("key") || f.key != ""
		return errors.Join(err, oneOf("print", f.print, "json", "value"))
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		opts := &ringfence.TailOptions{From: target}
		if keyed {
			opts.Key = []byte(f.key)
		}
		if len(f.partitions) > 0 {
			info, err := rf.Admin().DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			opts.Partitions, err = partitionsOf(fmt.Sprintf("topic %q", info.Name), f.partitions, func(storage, partition int) int {
				if storage >= len(info.Storage) || partition >= len(info.Storage[storage].Partitions) {
					return -1
				}
				for _, before := range info.Storage[:storage] {
					partition += before.Size
				}
				return partition
			})
			if err != nil {
				return err
			}
		}
		return a.tail(ctx, rf, args[0], &f, opts)
	})
	return cmd
}

func (a *app) tail(ctx context.Context, rf *ringfence.Client, topic string, f *tailFlags, opts *ringfence.TailOptions) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := a.records(f.print)
	t := pipe.NewTally(func(_ context.Context, m *ringfence.Message) error {
		line, err := printed(f.print, m)
		if err == nil {
			_, err = out.Write(line)
		}
		return err
	}, f.max, func() { stop(errMaximum) })
	t.Owns() // all of it, from the start
	var watching sync.WaitGroup
	watching.Go(func() { t.Watch(working, f.idleExit, func() { stop(errIdle) }) }) // joined below
	err := rf.Tail(working, topic, t.Handle, opts)
	cause := context.Cause(working)
	stop(nil)
	watching.Wait()
	var trimmed *commitlog.OutOfRangeError
	var damaged *commitlog.CorruptError
	switch {
	case errors.Is(cause, errMaximum), errors.Is(cause, errIdle), err != nil && errors.Is(cause, errSignalled):
		return nil
	case errors.As(err, &trimmed):
		return fmt.Errorf("%w; retention was faster: begin again with --from earliest", err)
	case errors.As(err, &damaged) && damaged.Resume >= 0:
		return fmt.Errorf("%w; to look behind it: --from %d with the --partition", err, damaged.Resume)
	}
	return err
}
