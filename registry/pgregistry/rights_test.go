package pgregistry

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// The rights that the guide names are enough for every operation.
func TestTheRightsOfTheGuideAreEnough(t *testing.T) {
	t.Parallel()
	d := newStore(t, testserver.URL(t, "postgres"))
	d.open(t, driver.Options{})
	role := "rights_" + d.schema
	execute(t, d.url, "CREATE ROLE "+role+" LOGIN PASSWORD '"+secret+"'")
	t.Cleanup(func() { execute(t, d.url, "DROP OWNED BY "+role); execute(t, d.url, "DROP ROLE "+role) })
	for _, grant := range testserver.Rights(t, "PostgreSQL", "ringfence", d.schema, "rf", role) {
		execute(t, d.url, grant)
	}
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, secret)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := registrytest.EveryOperation(ctx, schemaStore{u.String(), d.schema}.open(t, driver.Options{})); err != nil {
		t.Error(err)
	}
}
