package nemesis

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/testserver"
)

// brokers are those of a cluster; the first one is its controller too.
const brokers = 3

// brokerTroubles hurt a cluster that holds the log. Acks wait for two of three brokers, so while one
// is away the others go on.
var brokerTroubles = []trouble{
	{Trouble: harness.Trouble{Name: "kill a broker", Hurts: aBroker, Hold: upToASecond}, begin: harmBroker((*testserver.Server).Kill, (*testserver.Server).Restart)},
	{Trouble: harness.Trouble{Name: "stop a broker", Hurts: aBroker, Hold: [2]time.Duration{time.Second, 6 * time.Second}}, begin: harmBroker((*testserver.Server).Freeze, (*testserver.Server).Thaw)},
	{Trouble: harness.Trouble{Name: "move the leaders", Hurts: aBroker}, begin: moveLeaders},
}

// privateCluster keeps the log in a Kafka of three brokers. An append is tried for longer than the
// brokers can be away together.
func privateCluster(t *testing.T, w *world) string {
	t.Helper()
	w.cluster = testserver.Private(t, "kafka_cluster")
	return w.cluster.URL() + "?delivery-timeout=4m"
}

// has says whether a trouble can come to w. A short run beside brokers has only those of members
// that the judge needs to see.
func (w *world) has(k trouble, full bool) bool {
	switch k.Hurts {
	case aMember:
		return w.cluster == nil || full || k.Name == "kill -9 a member" || k.Name == "stop a member beyond its lease"
	case aBroker:
		return w.cluster != nil
	case theTopics:
		return true
	default:
		return w.server != nil
	}
}

func harmBroker(harm, heal func(*testserver.Server)) func(*world, int) func() {
	return func(w *world, pick int) func() {
		broker := w.cluster.Part(strconv.Itoa(1 + pick%brokers))
		harm(broker)
		return func() { heal(broker) }
	}
}

// moveLeaders lets each partition be led by the broker that is the first of its replicas, which others
// have become while that one was away.
func moveLeaders(w *world, _ int) func() {
	u, err := url.Parse(w.log)
	w.must(err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(u.Host, ",")...))
	w.must(err)
	defer cl.Close()
	w.until("leaders were elected", func() bool {
		req := kmsg.NewPtrElectLeadersRequest() // of all topics
		req.TimeoutMillis = 10_000
		resp, err := req.RequestWith(w.t.Context(), cl)
		return err == nil && resp.ErrorCode == 0
	})
	return nil
}
