package back

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/mirror"
)

// moving is a topic in a directory that moves to the log of a world, whose registry goes back.
type moving struct {
	*world
	source *ringfence.Client
}

func newMoving(t *testing.T, open func(t *testing.T, namespace string) past, log string) *moving {
	t.Helper()
	m := &moving{world: newWorld(t, open, log, false)}
	dir := "file://" + filepath.Join(t.TempDir(), "source")
	c := m.config
	c.Log, c.Registry = dir, dir
	var err error
	m.source, err = ringfence.Open(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { must(t, m.source.Close()) })
	must(t, m.source.EnsureTopic(t.Context(), topicName, ringfence.TopicConfig{Partitions: 2}))
	m.begin()
	return m
}

// mirror is a run that begins with what the stores have.
func (m *moving) mirror() *mirror.Mirror {
	m.Helper()
	to := mirror.Side{Log: m.rf().Log(), Registry: m.rf().Registry(), Namespace: m.config.Namespace, Name: "the target"}
	from := mirror.Side{Log: m.source.Log(), Registry: m.source.Registry(), Namespace: m.config.Namespace}
	run, err := mirror.New(mirror.Config{From: from, To: to, Topic: topicName, Once: true, BatchBytes: 50})
	must(m, err)
	return run
}

func (m *moving) cutOver() mirror.Result {
	m.Helper()
	res, err := m.mirror().CutOver(m.Context())
	must(m, err)
	return res
}

func TestMoveLosesNothingWhenTheRegistryOfTheTargetGoesBack(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func(m *moving){
		// Its log has taken the next sequences already.
		"Notes": func(m *moving) {
			m.putBy(m.source, 60)
			must(m, m.mirror().Run(m.Context()))
			back := m.save()
			for range 5 {
				m.putBy(m.source, 7)
				must(m, m.mirror().Run(m.Context()))
			}
			back()
			m.putBy(m.source, 100)
			must(m, m.mirror().Run(m.Context()))
			m.cutOver()
			m.judge(0)
		},
		// Records of its own are at the target since.
		"CutOver": func(m *moving) {
			m.putBy(m.source, 60)
			g := m.consume(m.source, "g", ringfence.Earliest)
			m.await(0, g)
			must(m, g.end())
			back := m.save()
			m.cutOver()
			m.put(40)
			m.eat("g", ringfence.Earliest, 60)
			back()
			if res := m.cutOver(); !res.Restored || len(res.Groups) != 1 {
				m.Errorf("a repeated cut-over tells %+v", res)
			}
			m.put(10)
			if m.eat("g", ringfence.Earliest, 100); len(m.describe().Storage) != 2 {
				m.Errorf("the topic is %+v", m.describe())
			}
			m.judge(0)
		},
	} {
		for store, open := range pasts() {
			for _, log := range []string{"file", "kafka"} {
				t.Run(name+"/"+store+"/"+log, func(t *testing.T) {
					t.Parallel()
					body(newMoving(t, open, logURL(t, log)))
				})
			}
		}
	}
}

// logURL is a log of its own; "": in a directory.
func logURL(t *testing.T, log string) string {
	t.Helper()
	if log == "file" {
		return ""
	}
	u, err := url.Parse(testserver.URL(t, log))
	must(t, err)
	u.RawQuery = url.Values{"prefix": {unique() + "."}}.Encode()
	t.Cleanup(func() {
		rf, err := ringfence.Open(context.Background(), ringfence.Config{Log: u.String(), Registry: "file://" + t.TempDir(), Backends: backends.All()})
		must(t, err)
		all, err := rf.Log().Topics(context.Background())
		must(t, err)
		for _, topic := range all {
			must(t, rf.Log().DeleteTopic(context.Background(), topic.Name))
		}
		must(t, rf.Close())
	})
	return u.String()
}
