package pulsarlog

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/growtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

func TestAStorageTopicIsRetired(t *testing.T) {
	t.Parallel()
	u := namespace(t)
	growtest.Retire(t, ringfence.Config{
		Log: u.String(), Registry: testserver.URL(t, "redis"), Namespace: "retire-" + u.Path[strings.LastIndexByte(u.Path, '/')+1:],
		Backends: append(backends.All(), ringfence.Backend{Scheme: "pulsar", OpenLog: OpenURL}),
	})
}
