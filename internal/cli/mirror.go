package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
)

type mirrorFlags struct {
	toRegistry string
	once       bool
	cutOver    bool
	abandon    bool
	batchBytes int
}

func (a *app) topicMirror() *cobra.Command {
	var f mirrorFlags
	cmd := &cobra.Command{
		Use:   "mirror FROM-URL TO-URL TOPIC...",
		Short: "Copy topics to another log, live, and move to it",
		Long: `Copy topics from one log to another while they are in use, and follow them until it is
interrupted. It can be stopped or killed at any time and goes on where it was: the
target gets every record once and in order. Run one mirror of a topic at a time; a
newer one takes over.

The topics of FROM-URL are defined in --registry, or in the directory itself when
FROM-URL is one. Definitions and progress of the target are kept in --to-registry; or
in the directory when TO-URL is one; or in the registry of the source.

With --cut-over it moves for good: producers at the source are refused from then on,
the rest is copied, and the progress of every consumer group is carried over, so that
consumers started on the new log go on exactly where they were. Stop the consumers
first. After a failure run it again.

A source with retention keeps records until they are copied, also while no mirror runs.
--abandon ends that, for a mirror that will not go on: give the same URLs. The target
need not answer, and stays as it is. --abandon also takes back a cut-over that has not
begun to move the groups; "topic add-storage" and "switch-produce" then open the source
for producers again.`,
		Example: `  ringfence topic mirror file:///var/lib/rf kafka://k1:9092,k2:9092 payments --to-registry postgres://db/rf
  ringfence topic mirror file:///var/lib/rf kafka://k1:9092,k2:9092 payments --to-registry postgres://db/rf --cut-over`,
		Args: cobra.MinimumNArgs(3),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.toRegistry, "to-registry", "", "`URL` of the coordination store of the target")
	fl.BoolVar(&f.once, "once", false, "end when what is there now was copied")
	fl.BoolVar(&f.cutOver, "cut-over", false, "end the source and carry the progress of its groups over")
	fl.IntVar(&f.batchBytes, "batch-bytes", 0, "about how many `bytes` one append carries (0: 262144)")
	fl.BoolVar(&f.abandon, "abandon", false, "end a mirror for good: copy nothing, and let the source drop what was not copied")
	cmd.MarkFlagsMutuallyExclusive("once", "cut-over", "abandon")
	completeWith(cmd, "to-registry", "file:")
	completeWith(cmd, "batch-bytes")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error { return a.mirrorTopics(ctx, args, f) })
	return cmd
}

// mirrorDoc is what the command tells of one topic.
type mirrorDoc struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records"` // copied by this run
	Bytes   int64  `json:"bytes"`
	CutOver bool   `json:"cut_over"`
	Already bool   `json:"already,omitempty"` // it had been cut over before
	// Restored: it had been, and the registry of the target had forgotten it.
	Restored bool     `json:"restored,omitempty"`
	Groups   []string `json:"groups,omitempty"` // whose progress was carried over
	// Abandoned: the source keeps nothing for the mirror any more.
	Abandoned bool `json:"abandoned,omitempty"`
}

// mirrorSides are the configurations of the two clients.
func (a *app) mirrorSides(from, to string, f mirrorFlags) (source, target ringfence.Config) {
	source = a.clientConfig()
	source.Log, source.MustExist = from, true
	if source.Registry == "" && directoryOf(from) != "" {
		source.Registry = directoryOnly(from)
	}
	target = source
	target.Log, target.MustExist = to, false
	switch {
	case f.toRegistry != "":
		target.Registry = f.toRegistry
	case directoryOf(to) != "":
		target.Registry = directoryOnly(to)
	}
	return source, target
}

// directoryOf is the directory that the URL of a log names; "": none.
func directoryOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return filepath.FromSlash(u.Opaque + u.Path)
}

// sameLog says whether two URLs lead to one log, as far as they tell.
func sameLog(a, b string) bool {
	if x, y := directoryOf(a), directoryOf(b); x != "" && y != "" {
		i, err := os.Stat(x)
		j, again := os.Stat(y)
		return err == nil && again == nil && os.SameFile(i, j)
	}
	name := logName(a)
	return name != "" && name == logName(b)
}

// logName names a log, by what sameLog goes by: without user, password and options.
func logName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if dir, err := filepath.Abs(directoryOf(raw)); err == nil && u.Scheme == "file" {
		return "file:" + dir
	}
	name := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}
	if prefix := u.Query().Get("prefix"); prefix != "" {
		name.RawQuery = url.Values{"prefix": {prefix}}.Encode()
	}
	return name.String()
}

// directoryOnly drops the parameters of a log's URL, which a registry may not know.
func directoryOnly(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.RawQuery = ""
	return u.String()
}

func (a *app) mirrorTopics(ctx context.Context, args []string, f mirrorFlags) (err error) {
	if sameLog(args[0], args[1]) {
		return fmt.Errorf("FROM-URL and TO-URL are one log, which would be copied into itself without end; expected two: %w", fault.Invalid)
	}
	fromConfig, toConfig := a.mirrorSides(args[0], args[1], f)
	from, err := ringfence.Open(ctx, fromConfig)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if f.abandon {
		return a.abandonMirrors(ctx, from, logName(args[1]), args[2:])
	}
	to, err := ringfence.Open(ctx, toConfig)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	mirrors := make([]*mirror.Mirror, len(args[2:]))
	for i, name := range args[2:] {
		mirrors[i], err = mirror.New(mirror.Config{
			From:         mirror.Side{Log: from.Log(), Registry: from.Registry(), Namespace: a.global.namespace},
			To:           mirror.Side{Log: to.Log(), Registry: to.Registry(), Namespace: a.global.namespace, Name: logName(args[1])},
			SameRegistry: fromConfig.Registry == toConfig.Registry,
			Topic:        name, Once: f.once, BatchBytes: f.batchBytes, Logger: a.logger(),
		})
		if err != nil {
			return err
		}
	}
	return a.runMirrors(ctx, mirrors, args[2:], f.cutOver)
}

// abandonMirrors lets the source drop what was not copied to a target.
func (a *app) abandonMirrors(ctx context.Context, from *ringfence.Client, target string, names []string) error {
	docs := make([]mirrorDoc, len(names))
	side := mirror.Side{Log: from.Log(), Registry: from.Registry(), Namespace: a.global.namespace}
	for i, name := range names {
		if err := mirror.Abandon(ctx, side, name, target); err != nil {
			return err
		}
		docs[i] = mirrorDoc{Topic: name, Abandoned: true}
	}
	return emit(a, docs, func(r *report, docs []mirrorDoc) {
		for _, d := range docs {
			r.line("topic %s: nothing is kept any more for a mirror to %s", d.Topic, target)
		}
	})
}

// runMirrors runs all at once; the first that fails ends the others.
func (a *app) runMirrors(ctx context.Context, mirrors []*mirror.Mirror, names []string, cutOver bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	docs := make([]mirrorDoc, len(mirrors))
	errs := make([]error, len(mirrors))
	var runs sync.WaitGroup
	for i, m := range mirrors {
		docs[i].Topic = names[i]
		runs.Go(func() { // joined below
			if cutOver {
				var res mirror.Result
				res, errs[i] = m.CutOver(ctx)
				docs[i].CutOver, docs[i].Already, docs[i].Restored, docs[i].Groups = errs[i] == nil, res.Already, res.Restored, res.Groups
			} else {
				errs[i] = m.Run(ctx)
			}
			if errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	over := make(chan struct{})
	go func() { // ends with runs
		runs.Wait()
		close(over)
	}()
	bar := a.showMirrors(mirrors, over)
	var failed []error
	for i, err := range errs {
		p := mirrors[i].Progress()
		docs[i].Records, docs[i].Bytes = p.Records, p.Bytes
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errSignalled) {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if cutOver && errors.Is(context.Cause(ctx), errSignalled) {
		return errSignalled // it is not done
	}
	return emit(a, docs, func(r *report, docs []mirrorDoc) {
		for _, d := range docs {
			r.line("%s", d.text(bar))
		}
	})
}

func (d *mirrorDoc) text(bar *progress) string {
	switch {
	case d.Restored:
		return fmt.Sprintf("topic %s was cut over before, which the registry of the target had forgotten: it is defined again as the log has it, and the progress of %s begins at what the log holds for them", d.Topic, plural(len(d.Groups), "group"))
	case d.Already:
		return fmt.Sprintf("topic %s was cut over before; nothing was changed", d.Topic)
	case d.CutOver:
		return fmt.Sprintf("topic %s was cut over: the last %s copied, the progress of %s carried over", d.Topic, plural(d.Records, "record"), plural(len(d.Groups), "group"))
	}
	return fmt.Sprintf("topic %s: copied %s (%s/s)", d.Topic, plural(d.Records, "record"), bar.rate(d.Records))
}

// showMirrors tells on stderr how far they are until over is closed.
func (a *app) showMirrors(mirrors []*mirror.Mirror, over <-chan struct{}) *progress {
	bar, ticker := a.newProgress()
	defer ticker.Stop()
	defer bar.clear()
	for {
		select {
		case <-over:
			return bar
		case <-ticker.C:
		}
		var sum mirror.Progress
		for _, m := range mirrors {
			p := m.Progress()
			sum.Records += p.Records
			sum.Behind += p.Behind
		}
		bar.show(sum.Records, "records copied, "+thousands(sum.Behind)+" behind")
	}
}
