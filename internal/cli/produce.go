package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/pipe"
)

type produceFlags struct {
	key       string
	keySep    string
	partition int
	headers   []string
	file      string
	input     string
	inFlight  int
}

func (a *app) produceCommand() *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Append one record for each line of the input",
		Long: `Append one record for each line of stdin (or --file) to a topic. What was acknowledged
is durable. Many lines are under way at once, and the records of one key keep the
order of their lines.

When a line can't be stored, reading stops and the message says how many lines were
stored and which is the first that was not. After the cause is gone, go on with that
line: tail -n +LINE FILE | ringfence produce TOPIC. When lines after it were stored
("and 3 after it") these come twice then; when it "may or may not be stored", it may.
--format json prints the place of each record, in the order of the lines.

SIGINT, SIGTERM and SIGHUP stop reading; what is under way is finished, and the message says
how many lines are stored and with which one to go on. The exit code is 1, as the input had not ended.

With --input json a line is a record as "ringfence consume" prints it, with its key,
value, headers and timestamp.`,
		Example: `  echo hello | ringfence produce greetings
  printf 'acct-1:+10\nacct-2:-3\n' | ringfence produce payments --key-sep :
  ringfence produce clicks --file clicks.log --header source=web --format json
  ringfence consume old --group copy --from earliest --idle-exit 1s | ringfence produce new --input json`,
		ValidArgsFunction: first(a.offers(topicNames)),
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.key, "key", "k", "", "`key` of every record")
	fl.StringVar(&f.keySep, "key-sep", "", "what stands between key and value in a line")
	fl.IntVar(&f.partition, "partition", -1, "`number` of the partition (default: by the key)")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "`name=value` attached to every record; may be repeated")
	fl.StringVarP(&f.file, "file", "f", "", "read this `file`; - is stdin, as without it")
	fl.StringVar(&f.input, "input", "lines", "what a line is: its bytes (lines) or a record (json)")
	fl.IntVar(&f.inFlight, "in-flight", 4096, "how many lines may wait for their acknowledgement")
	bounded(fl, 1, 1<<20, "in-flight")
	noFlag(cmd, "value", "a record is a line of stdin: echo hello | ringfence produce TOPIC")
	cmd.MarkFlagsMutuallyExclusive("key", "key-sep")
	completeWith(cmd, "input", "lines", "json")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("found %s; expected %s, and one record a line on stdin: echo hello | %s %s: %w", plural(len(args), "argument"), "produce TOPIC", cmd.CommandPath(), args[0], fault.Invalid)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	var maker *pipe.Maker
	cmd.PreRunE = checked(func() (err error) {
		var key []byte
		if cmd.Flags().Changed("key") {
			key = []byte(f.key)
		}
		maker, err = f.maker(key)
		return err
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.produce(ctx, rf, args[0], maker, f)
	})
	return cmd
}

func (f *produceFlags) maker(key []byte) (*pipe.Maker, error) {
	var errs []error
	errs = append(errs, oneOf("input", f.input, "lines", "json"))
	if f.input == "json" && (key != nil || f.keySep != "") {
		errs = append(errs, fmt.Errorf("--input json: the key is in the record; expected no --key and no --key-sep: %w", fault.Invalid))
	}
	headers, err := pipe.ParseHeaders(f.headers)
	m := &pipe.Maker{Key: key, JSON: f.input == "json", Headers: headers}
	if f.keySep != "" {
		m.Separator = []byte(f.keySep)
	}
	return m, errors.Join(append(errs, err)...)
}

func (a *app) produce(ctx context.Context, rf *ringfence.Client, topic string, maker *pipe.Maker, f produceFlags) error {
	info, err := rf.Admin().DescribeTopic(ctx, topic)
	if err != nil {
		return err // before a line is read
	}
	if last := len(info.Storage[info.Produce].Partitions) - 1; f.partition > last {
		return fmt.Errorf("--partition %d: topic %q has partitions 0 to %d; %d is out of range: %w", f.partition, topic, last, f.partition, fault.Invalid)
	}
	input, typed := a.stdin, (f.file == "" || f.file == "-") && isTerminal(a.stdin)
	if f.file != "" && f.file != "-" {
		file, err := readUntil(ctx, func() (*os.File, error) { return os.Open(f.file) }) // of a FIFO without a writer
		if err != nil && ctx.Err() == nil {
			return inputError(err)
		} else if err != nil {
			return fmt.Errorf("input: %s: %w", f.file, err)
		}
		defer file.Close()
		input = file
	} else if typed {
		fmt.Fprintln(a.stderr, "one record a line; Ctrl-D ends the input")
	}
	var places io.Writer
	if a.global.format == "json" {
		places = a.stdout
	}
	bar, ticker := a.newProgress()
	defer ticker.Stop()
	ticks := ticker.C
	if typed {
		ticks = nil // progress would be drawn over what is typed
	}
	p := pipe.New(rf, pipe.Config{
		Topic: topic, Partition: f.partition, InFlight: f.inFlight, Maker: maker, Places: places,
		Drain: errSignalled, LastWords: lastWords,
	})
	sum := p.Run(ctx, pipe.NewReader(input), ticks, func(acked int64) { bar.show(acked, "lines stored") })
	bar.clear()
	if err := sum.Fault(); err != nil {
		return err
	}
	if a.global.format == "json" {
		return nil
	}
	return emit(a, sum.Acked, func(r *report, acked int64) {
		r.line("stored %s in topic %s (%s/s)", plural(acked, "record"), topic, bar.rate(acked))
	})
}
