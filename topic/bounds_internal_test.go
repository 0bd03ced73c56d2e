package topic

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// Each storage topic is in its bounds, and all together would take the memory of whoever describes it.
func TestADefinitionOfTooManyPartitionsIsRefused(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1} {
		many := strings.Repeat(`,{"name":"x..0","partitions":4096,"k":1}`, protocol.MaxUnits/commitlog.MaxPartitions+more)
		_, err := decode("topics/x", []byte(`{"format":1,"name":"x","life":"a","state":"ready","storage":[`+many[1:]+`],"router":"modulo","hash":"xxhash64"}`))
		if more == 0 && err != nil || more == 1 && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "topics/x")) {
			t.Errorf("%d storage topics too many: %v", more, err)
		}
	}
}
