package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// admin speaks the REST interface of a Pulsar cluster, as far as a log needs it.
type admin struct {
	*web
	tenant, namespace string
}

// topicPath is the path of a topic, or of a partition's topic, of the namespace.
func (a *admin) topicPath(name, rest string) string {
	return "/persistent/" + url.PathEscape(a.tenant) + "/" + url.PathEscape(a.namespace) + "/" + url.PathEscape(name) + rest
}

// fullName is the name under which the client knows a partition.
func (a *admin) fullName(partition string) string {
	return "persistent://" + a.tenant + "/" + a.namespace + "/" + partition
}

func partitionName(topic string, partition int) string {
	return topic + "-partition-" + strconv.Itoa(partition)
}

// partitionedTopic is the media type of the body that creates a topic with properties.
const partitionedTopic = "application/vnd.partitioned-topic-metadata+json"

func (a *admin) get(ctx context.Context, path string, out any) error {
	return a.call(ctx, http.MethodGet, path, "", nil, out)
}

func (a *admin) send(ctx context.Context, method, path string, in any) error {
	return a.call(ctx, method, path, "application/json", in, nil)
}

func (a *admin) checkNamespace(ctx context.Context) error {
	_, err := a.topics(ctx)
	if errors.Is(err, fault.NotFound) {
		return fmt.Errorf("pulsar has no namespace %s/%s (create it: pulsar-admin namespaces create): %w", a.tenant, a.namespace, fault.NotFound)
	}
	return err
}

// topics are the names of the partitioned topics of the namespace that can be ours, each once. Others are not
// asked for: they may be as long as an answer.
func (a *admin) topics(ctx context.Context) ([]string, error) {
	var full []string
	if err := a.get(ctx, "/persistent/"+url.PathEscape(a.tenant)+"/"+url.PathEscape(a.namespace)+"/partitioned", &full); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(full))
	for _, f := range full {
		if name := f[strings.LastIndexByte(f, '/')+1:]; commitlog.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// metadata of a partitioned topic.
type metadata struct {
	Partitions int               `json:"partitions"`
	Properties map[string]string `json:"properties"`
}

// create is fault.Conflict when the name is taken, which may be by an earlier try of its own.
func (a *admin) create(ctx context.Context, name string, m metadata) error {
	return a.call(ctx, http.MethodPut, a.topicPath(name, "/partitions"), partitionedTopic, m, nil)
}

func (a *admin) metadata(ctx context.Context, name string) (metadata, error) {
	var m metadata
	err := a.get(ctx, a.topicPath(name, "/partitions"), &m)
	if err == nil && m.Partitions == 0 {
		err = fmt.Errorf("topic %q: %w", name, fault.NotFound)
	}
	return m, err
}

// setProperties adds to the properties of a partitioned topic.
func (a *admin) setProperties(ctx context.Context, name string, p map[string]string) error {
	return a.send(ctx, http.MethodPut, a.topicPath(name, "/properties"), p)
}

// delete is fault.NotFound when there was none before its first try. A broker that has just deleted a
// topic, or is at it, fails for a moment to delete it.
func (a *admin) delete(ctx context.Context, name string) error {
	tried := false
	return patiently(ctx, deletePatience, func() (bool, error) {
		err := a.send(ctx, http.MethodDelete, a.topicPath(name, "/partitions?force=true"), nil)
		if tried && errors.Is(err, fault.NotFound) {
			return false, nil
		}
		tried = true
		return errors.Is(err, fault.Unavailable), err
	})
}

// position is a message id as the REST interface writes it.
type position struct {
	Ledger    int64 `json:"ledgerId"`
	Entry     int64 `json:"entryId"`
	Partition int   `json:"partitionIndex"`
}

func (a *admin) terminate(ctx context.Context, partition string) error {
	return a.send(ctx, http.MethodPost, a.topicPath(partition, "/terminate"), nil)
}

// positionAt is the first entry that was published at or after a time.
func (a *admin) positionAt(ctx context.Context, partition string, millis int64) (position, error) {
	var p position
	err := a.get(ctx, a.topicPath(partition, "/messageid/"+strconv.FormatInt(millis, 10)), &p)
	return p, err
}

// stats is what the broker knows of the storage of a partition.
type stats struct {
	LastConfirmed string `json:"lastConfirmedEntry"` // ledger:entry
	State         string
	Ledgers       []ledger
	// Of the ledger that is written to, the last one, whose own numbers are 0.
	CurrentEntries int64 `json:"currentLedgerEntries"`
	CurrentSize    int64 `json:"currentLedgerSize"`
	Cursors        map[string]struct {
		MarkDelete string `json:"markDeletePosition"`
	}
}

type ledger struct {
	ID      int64 `json:"ledgerId"`
	Entries int64
	Size    int64
}

func (a *admin) stats(ctx context.Context, partition string) (*stats, error) {
	s := new(stats)
	if err := a.get(ctx, a.topicPath(partition, "/internalStats"), s); err != nil {
		return nil, err
	}
	return s, nil
}

// sealed says that the broker takes no more records. Where the partition ends it may not know yet:
// entries may be on their way still, and some of them will count. See end.
func (s *stats) sealed() bool { return s.State == "Terminated" }

// end is the position of the last entry of a terminated partition, as the broker has written it down
// for ever; nil: not yet.
func (a *admin) end(ctx context.Context, partition string) (*position, error) {
	var info struct {
		Terminated *position `json:"terminatedPosition"`
	}
	err := a.get(ctx, a.topicPath(partition, "/internal-info"), &info)
	return info.Terminated, err
}

// next is the offset behind the last entry; 0 when there never was one.
func (s *stats) next() (int64, error) {
	ledger, entry, err := parsePosition(s.LastConfirmed)
	if err != nil {
		return 0, err
	}
	return s.behind(ledger, entry)
}

// behind is the offset behind an entry.
func (s *stats) behind(ledger, entry int64) (int64, error) {
	if entry < 0 { // of an empty ledger: the last entry is in an older one
		for _, l := range slices.Backward(s.Ledgers) {
			if l.ID < ledger && l.Entries > 0 {
				return after(l.ID, l.Entries-1)
			}
		}
		return 0, nil
	}
	return after(ledger, entry)
}

// lost is the offset up to which the broker has let go of what the log's own subscription kept,
// by a time to live of the namespace or by hand; 0: nothing.
func (s *stats) lost() int64 {
	c, ok := s.Cursors[subscription]
	if !ok {
		return 0
	}
	ledger, entry, err := parsePosition(c.MarkDelete)
	if err != nil || entry < 0 {
		return 0
	}
	at, err := after(ledger, entry)
	if err != nil {
		return 0
	}
	return at
}

func parsePosition(s string) (ledger, entry int64, err error) {
	l, e, found := strings.Cut(s, ":")
	ledger, err1 := strconv.ParseInt(l, 10, 64)
	entry, err2 := strconv.ParseInt(e, 10, 64)
	if !found || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("pulsar names the position %.40q; expected ledger:entry: %w", s, fault.Corrupt)
	}
	return ledger, entry, nil
}

// unload makes the broker close the ledger of a partition and begin a new one.
func (a *admin) unload(ctx context.Context, partition string) error {
	return a.send(ctx, http.MethodPut, a.topicPath(partition, "/unload"), nil)
}
