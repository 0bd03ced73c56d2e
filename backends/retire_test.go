package backends_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/growtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

func TestAStorageTopicIsRetiredOnServers(t *testing.T) {
	t.Parallel()
	unique := fmt.Sprintf("retire-%08x", rand.Uint32())
	kafka, err := url.Parse(testserver.URL(t, "kafka"))
	if err != nil {
		t.Fatal(err)
	}
	kafka.RawQuery = url.Values{"prefix": {unique + "."}}.Encode()
	growtest.Retire(t, ringfence.Config{
		Log: kafka.String(), Registry: testserver.URL(t, "postgres"), Namespace: unique, Backends: backends.All(),
	})
}
