package back

import (
	"net/url"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
)

// One row of each kind with Kafka as the log.
func TestNothingIsLostWhenTheRegistryOfAKafkaGoesBack(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testserver.URL(t, "kafka"))
	must(t, err)
	names := []string{"AdditionAndSwitch", "SwitchWhileNothingIsProduced", "Retirement", "CreationOfATopicThatHasGrown", "GroupFromTheLatest", "SubscriptionFromTheLatest", "ReshardLongAgo"}
	for _, r := range slices.Concat(creations(), growth(), starts(), subscriptions()) {
		if !slices.Contains(names, r.name) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			at := *u
			q := at.Query()
			q.Set("prefix", unique()+".")
			at.RawQuery = q.Encode()
			r.body(newWorld(t, newKeyspace, at.String(), false))
		})
	}
}
