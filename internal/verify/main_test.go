package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/pgregistry"
)

// Variables that make this test binary a process of a run.
const (
	specVariable     = "RINGFENCE_TEST_VERIFY_SPEC"
	dirVariable      = "RINGFENCE_TEST_VERIFY_DIR"
	logVariable      = "RINGFENCE_TEST_VERIFY_LOG"
	registryVariable = "RINGFENCE_TEST_VERIFY_REGISTRY"
	bugVariable      = "RINGFENCE_TEST_VERIFY_BUG" // see bugs
)

func TestMain(m *testing.M) {
	if raw := os.Getenv(specVariable); raw != "" {
		if err := serve(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func serve(raw string) error {
	var s Spec
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return serveWith(ctx, s, func(ctx context.Context) (*ringfence.Client, error) {
		return ringfence.Open(ctx, stores(os.Getenv(dirVariable), os.Getenv(logVariable), os.Getenv(registryVariable)))
	}, nil, bugs[os.Getenv(bugVariable)])
}

func stores(dir, log, registry string) ringfence.Config {
	return ringfence.Config{Dir: dir, Log: log, Registry: registry, Backends: []ringfence.Backend{
		{Scheme: "kafka", OpenLog: kafkalog.OpenURL},
		{Scheme: "postgres", OpenRegistry: pgregistry.OpenURL},
	}}
}

// small is a run of a few seconds, in processes of this binary.
func small(t *testing.T, log, registry string) Config {
	t.Helper()
	dir := t.TempDir()
	return Config{
		For: 8 * time.Second, Faults: Faults(), Seed: 11,
		Partitions: 4, Consumers: 3, Producers: 2, Keys: 60, Rate: 400, Size: 64, TTL: 2 * time.Second,
		Site: Site{Client: stores(dir, log, registry), Dir: t.TempDir(), Command: func(s Spec) (string, []string, []string) {
			raw, err := json.Marshal(s)
			if err != nil {
				t.Error(err)
			}
			return os.Args[0], nil, []string{specVariable + "=" + string(raw), dirVariable + "=" + dir, logVariable + "=" + log, registryVariable + "=" + registry}
		}},
	}
}

func TestRunOnKafkaAndPostgreSQLKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for name, subscriptions := range map[string]bool{"a group": false, "a subscription": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := small(t, testserver.URL(t, "kafka"), testserver.URL(t, "postgres"))
			if c.Subscriptions = subscriptions; subscriptions {
				c.Faults, c.Keys = SubscriptionFaults(), 20
			}
			keepsItsPromises(t, c)
		})
	}
}

func keepsItsPromises(t *testing.T, c Config) {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil || r.Verdict != AllKept || r.Figures.Acked == 0 || r.Figures.Handled < r.Figures.Acked {
		t.Fatalf("%v: %+v\n%+v", err, r.Figures, r)
	}
	done := 0
	for _, f := range r.Faults {
		done += f.Done
	}
	if done == 0 {
		t.Errorf("no fault happened: %+v", r.Schedule)
	}
	rf, err := ringfence.Open(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if _, err := rf.Admin().DescribeTopic(t.Context(), r.Topic); err == nil {
		t.Errorf("topic %s is still there", r.Topic)
	}
	if _, err := rf.Admin().DescribeGroup(t.Context(), r.Group); err == nil {
		t.Errorf("group %s is still there", r.Group)
	}
	if _, err := rf.Admin().GetSubscription(t.Context(), r.Group); err == nil {
		t.Errorf("subscription %s is still there", r.Group)
	}
}
