package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/fileregistry"
	"github.com/ringfence/ringfence/topic"
)

func (a *app) logCommand() *cobra.Command {
	return a.holder(&cobra.Command{
		Use:   "log",
		Short: "Look inside the log of a data directory",
	}, nil, a.logDump(), a.logCheck())
}

type dumpFlags struct {
	topic     string
	partition int
	records   bool
}

func (a *app) logDump() *cobra.Command {
	var f dumpFlags
	cmd := &cobra.Command{
		Use:   "dump [DIR]",
		Short: "Print every frame of a log, where it lies, and with --records what it holds",
		Long: `Print every sound frame of the log in a data directory (default: that of --log, or
--data), in the order of the file: its segment, its first byte there, its partition and
its offsets. With --records every record too. It changes nothing, and other processes
may use the log meanwhile.
Damage is named on stderr at the end, and makes the exit code 1.

Topics are the storage topics. Those of a topic NAME are called NAME..0.LIFE, NAME..1.LIFE
and so on, see "topic describe"; NAME..0 is enough to say which, and NAME stands for all.`,
		Example: `  ringfence log dump ./ringfence-data --topic payments..0
  ringfence log dump --partition 3 --records --format json | jq .value`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&f.topic, "topic", "", "only this topic, or this storage `topic`")
	cmd.Flags().IntVar(&f.partition, "partition", -1, "only this partition")
	cmd.Flags().BoolVar(&f.records, "records", false, "the records of each frame")
	_ = cmd.RegisterFlagCompletionFunc("topic", a.offers(storageNames)) // made just above
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.onLog(args, func(dir string) error { return a.dumpLog(ctx, dir, f) })
	})
	return cmd
}

func (a *app) logCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [DIR]",
		Short: "Read every byte of a log and of the registry beside it, and name what is damaged",
		Long: `Read every byte of the log in a data directory (default: that of --log, or --data), and of
the registry if there is one beside it or --registry names another directory, and verify
every checksum. It changes nothing, and other processes may use both meanwhile. The exit
code is 1 when anything is damaged.`,
		Example: `  ringfence log check ./ringfence-data
  ringfence log check --format json | jq '.registry.damage, .topics[].damage'`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.onLog(args, func(dir string) error {
				beside := dir
				if other := directoryOf(a.global.registry); other != "" && len(args) == 0 {
					beside = other
				}
				return a.checkLog(ctx, dir, beside)
			})
		}),
	}
}

// onLog finds the data directory that is meant: the argument's, else the log's, else the data's.
func (a *app) onLog(args []string, look func(dir string) error) error {
	dir := a.global.data
	if a.global.log != "" && len(args) == 0 {
		if dir = directoryOf(a.global.log); dir == "" {
			return fmt.Errorf("--log %s is no directory; expected file:DIR, or the directory as an argument: %w", logName(a.global.log), fault.Invalid)
		}
	}
	if len(args) == 1 {
		dir = args[0]
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s holds no Ringfence data: %w (name another directory)", dir, fault.NotFound)
	}
	return look(dir)
}

// frameLine is a frame as a line of JSON.
type frameLine struct {
	Topic     string `json:"topic"`
	File      string `json:"file"`
	Position  int64  `json:"position"` // byte in File
	Bytes     int64  `json:"bytes"`
	Partition int    `json:"partition"`
	First     int64  `json:"first"` // offset
	Next      int64  `json:"next"`
	Records   int    `json:"records"`
	Kind      string `json:"kind"`
	Timestamp string `json:"timestamp"` // of the first record
	Producer  uint64 `json:"producer,omitempty"`
	Sequence  int64  `json:"sequence,omitempty"`
}

// recordLine is a record as a line of JSON.
type recordLine struct {
	Topic         string       `json:"topic"`
	Partition     int          `json:"partition"`
	Offset        int64        `json:"offset"`
	Key           *string      `json:"key"`
	KeyEncoding   string       `json:"key_encoding,omitempty"`
	Value         string       `json:"value"`
	ValueEncoding string       `json:"value_encoding,omitempty"`
	Timestamp     string       `json:"timestamp"`
	Headers       []api.Header `json:"headers"`
	File          string       `json:"file"`
	Position      int64        `json:"position"` // byte in File where its frame begins
}

func (a *app) dumpLog(ctx context.Context, dir string, f dumpFlags) error {
	out := a.stdout
	asJSON := a.global.format == "json"
	namespace := ""
	if a.global.namespace != "" {
		namespace = a.global.namespace + ".."
	}
	opts := &filelog.InspectOptions{Topic: f.topic, Same: func(name, given string) bool {
		return topic.IsStorage(name, given) || strings.HasPrefix(name, namespace+given+"..")
	}}
	opts.Frame = func(i filelog.FrameInfo) error {
		if f.partition >= 0 && i.Frame.Partition != f.partition || asJSON && f.records {
			return nil
		}
		return printFrame(out, i, asJSON)
	}
	if f.records {
		opts.Record = func(i filelog.FrameInfo, r *driver.Record) error {
			if f.partition >= 0 && i.Frame.Partition != f.partition {
				return nil
			}
			return printRecord(out, i, r, asJSON)
		}
	}
	report, err := filelog.Inspect(ctx, filelog.Config{Dir: dir}, opts)
	if err != nil {
		return err
	}
	most := 0
	for _, t := range report.Topics {
		most = max(most, t.Config.Partitions)
		for _, d := range t.Damage {
			fmt.Fprintln(a.stderr, a.stderr.Line(damageText(t.Config.Name, d)))
		}
	}
	if f.partition >= most && most > 0 {
		return fmt.Errorf("--partition %d: expected at most %d, which is the last one here: %w", f.partition, most-1, fault.Invalid)
	}
	return damageError(checkedTopics(report))
}

func printFrame(out io.Writer, i filelog.FrameInfo, asJSON bool) error {
	fr := &i.Frame
	line := frameLine{
		Topic: i.Topic, File: i.File, Position: i.Position, Bytes: fr.Size(), Partition: fr.Partition, First: fr.Base, Next: fr.Next(),
		Records: fr.Count, Kind: fmt.Sprint(fr.Kind), Timestamp: timeOf(fr.Time), Producer: fr.ProducerID, Sequence: fr.Sequence,
	}
	if asJSON {
		return writeJSON(out, line, "")
	}
	what := fmt.Sprintf("offsets %d to %d  %s  %s", fr.Base, fr.Next()-1, plural(fr.Count, "record"), line.Kind)
	if fr.ProducerID != 0 && fr.Count == 0 {
		what = fmt.Sprintf("epoch %d of producer %x begins", fr.ProducerEpoch, fr.ProducerID)
	}
	_, err := fmt.Fprintf(out, "%s  %s+%d  partition %d  %s  %s\n", i.Topic, filepath.Base(i.File), i.Position, fr.Partition, what, line.Timestamp)
	return err
}

func printRecord(out io.Writer, i filelog.FrameInfo, r *driver.Record, asJSON bool) error {
	if !asJSON {
		key := "-"
		if r.Key != nil {
			key = shortText(r.Key)
		}
		_, err := fmt.Fprintf(out, "    %d  %s  %s  %s\n", r.Offset, timeOf(r.Timestamp), key, shortText(r.Value))
		return err
	}
	line := recordLine{
		Topic: i.Topic, Partition: i.Frame.Partition, Offset: r.Offset, Timestamp: timeOf(r.Timestamp),
		Headers: make([]api.Header, len(r.Headers)), File: i.File, Position: i.Position,
	}
	line.Key, line.KeyEncoding = api.KeyText(r.Key)
	line.Value, line.ValueEncoding = api.Text(r.Value)
	for n, h := range r.Headers {
		line.Headers[n].Name = h.Name
		line.Headers[n].Value, line.Headers[n].ValueEncoding = api.Text(h.Value)
	}
	return writeJSON(out, line, "")
}

// shortText is the start of some bytes, quoted where they are no plain text.
func shortText(b []byte) string {
	const most = 60
	tail := ""
	if len(b) > most {
		b, tail = b[:most], "…"
	}
	s := string(b)
	if q := strconv.Quote(s); !utf8.ValidString(s) || q != `"`+s+`"` {
		s = q
	}
	return s + tail
}

func damageText(topic string, d filelog.DamageReport) string {
	return fmt.Sprintf("damaged: topic %s: %s bytes %d to %d: %s", topic, d.File, d.From, d.To, d.Detail)
}

func damageError(log checkedLog) error {
	n := 0
	for i := range log.Topics {
		n += len(log.Topics[i].Damage)
	}
	if log.Registry != nil {
		n += len(log.Registry.Damage)
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", plural(n, "damaged place"), fault.Corrupt)
}

func (a *app) checkLog(ctx context.Context, dir, registry string) error {
	bar, ticker := a.newProgress()
	defer ticker.Stop()
	records := int64(0)
	found, err := filelog.Inspect(ctx, filelog.Config{Dir: dir}, &filelog.InspectOptions{Frame: func(i filelog.FrameInfo) error {
		records += int64(i.Frame.Count)
		select {
		case <-ticker.C:
			bar.show(records, "records checked")
		default:
		}
		return nil
	}})
	bar.clear()
	if err != nil {
		return err
	}
	log := checkedTopics(found)
	if log.Registry, err = checkRegistry(ctx, registry); err != nil {
		return err
	}
	return errors.Join(emit(a, log, checkTable), damageError(log))
}

// checkedLog is what "log check" found, as people and programs read it.
type checkedLog struct {
	Topics   []checkedTopic   `json:"topics"`
	Registry *checkedRegistry `json:"registry"` // null: there is none beside the log
}

type checkedRegistry struct {
	fileregistry.Report
	State  string   `json:"state"`
	Damage []string `json:"damage"`
}

// checkRegistry reads the registry in a data directory; nil: there is none.
func checkRegistry(ctx context.Context, dir string) (*checkedRegistry, error) {
	r := &checkedRegistry{Report: fileregistry.Report{Dir: dir}, State: "sound", Damage: []string{}}
	v, err := fileregistry.Look(ctx, fileregistry.Config{Dir: dir})
	switch {
	case errors.Is(err, fault.NotFound):
		return nil, nil
	case errors.Is(err, fault.Corrupt):
		r.Damage, r.State = append(r.Damage, err.Error()), "1 damaged place"
		return r, nil
	case err != nil:
		return nil, err
	}
	r.Report = v.Report()
	return r, v.Close()
}

type checkedTopic struct {
	Topic      string                 `json:"topic"` // the storage topic
	Dir        string                 `json:"dir"`
	Partitions int                    `json:"partitions"`
	Retention  topic.Retention        `json:"retention"`
	State      string                 `json:"state"`
	Sealed     bool                   `json:"sealed"`
	Frames     int64                  `json:"frames"`
	Records    int64                  `json:"records"`
	Bytes      int64                  `json:"bytes"`
	Next       []int64                `json:"next"` // by partition
	Segments   []checkedSegment       `json:"segments"`
	Damage     []filelog.DamageReport `json:"damage"`
}

type checkedSegment struct {
	filelog.SegmentReport
	Created string `json:"created"`
}

func checkedTopics(found *filelog.Report) checkedLog {
	log := checkedLog{Topics: make([]checkedTopic, len(found.Topics))}
	for i := range found.Topics {
		t, c := &found.Topics[i], &found.Topics[i].Config
		v := checkedTopic{
			Topic: c.Name, Dir: t.Dir, Partitions: c.Partitions, State: soundness(t),
			Retention: topic.Retention{Bytes: c.RetentionBytes, AgeMS: c.RetentionAgeMillis, Force: c.RetentionForce},
			Sealed:    t.Sealed, Frames: t.Frames, Records: t.Records,
			Next: t.Next, Damage: append([]filelog.DamageReport{}, t.Damage...),
			Segments: make([]checkedSegment, len(t.Segments)),
		}
		for n, s := range t.Segments {
			v.Segments[n] = checkedSegment{s, timeOf(s.Created)}
			v.Bytes += s.End
		}
		log.Topics[i] = v
	}
	return log
}

func soundness(t *filelog.TopicReport) string {
	if n := len(t.Damage); n > 0 {
		return plural(n, "damaged place")
	}
	state := "sound"
	if t.Sealed {
		state += ", sealed"
	}
	return state
}

func checkTable(r *report, log checkedLog) {
	tableOf(r, []string{"TOPIC", "PARTITIONS", "SEGMENTS", "FRAMES", "RECORDS", "BYTES", "STATE"}, log.Topics, func(t checkedTopic) []cell {
		return []cell{
			left(t.Topic), number(t.Partitions), number(len(t.Segments)), number(t.Frames), number(t.Records), number(t.Bytes),
			alarmIf(len(t.Damage) > 0, left(t.State)),
		}
	})
	if g := log.Registry; g != nil {
		r.line("")
		tableOf(r, []string{"REGISTRY", "ENTRIES", "SESSIONS", "REVISION", "BYTES", "STATE"}, []*checkedRegistry{g}, func(g *checkedRegistry) []cell {
			return []cell{left(g.Dir), number(g.Entries), number(g.Sessions), number(int64(g.Revision)), number(g.Bytes), alarmIf(len(g.Damage) > 0, left(g.State))}
		})
	}
	for i := range log.Topics {
		for _, d := range log.Topics[i].Damage {
			r.line("%s", damageText(log.Topics[i].Topic, d))
		}
	}
	if log.Registry != nil {
		for _, d := range log.Registry.Damage {
			r.line("damaged: %s", d)
		}
	}
}

// timeOf is a time for people, also when it is 0.
func timeOf(millis int64) string { return string(api.TimeOf(time.UnixMilli(millis))) }
