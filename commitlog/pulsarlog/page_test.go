package pulsarlog

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/doctest"
)

// docs/guide/pulsar.md, command after command: see package doctest. pulsar-admin comes with a whole
// Pulsar only; what stands for it makes the same request.
func TestThePageAboutPulsar(t *testing.T) {
	t.Parallel()
	const page, tools = "docs/guide/pulsar.md", "Pulsar's own command line is no part of the test server"
	own := "public/doctest-" + strings.ToLower(rand.Text())
	doctest.Compiled(t, page)
	doctest.Play{
		Page: page,
		Path: doctest.Build(t, "commitlog/pulsarlog", "./cmd/ringfence-pulsar"),
		Substitutes: []doctest.Substitute{
			{Text: "pulsar://h1:6650,h2:6650/public/orders?web=http://h1:8080", Server: "pulsar", For: "pulsar://$HOST/" + own + "?$QUERY"},
			{Text: "pulsar-admin namespaces create public/orders", Server: "pulsar", For: `web='$QUERY' && curl -fsS -X PUT "${web#web=}/admin/v2/namespaces/` + own + `"`},
		},
		Notes: []doctest.Note{
			{
				Of: "ringfence-pulsar topic create payments --partitions 8", Needs: []string{"pulsar"},
				After: `echo a | ringfence-pulsar produce payments --key k && ringfence-pulsar consume payments --group g --max 1 | grep '"value":"a"'
					ringfence-pulsar topic delete payments --force`,
			},
			{Of: "pulsar://[:TOKEN@]host:port[,host:port…][/TENANT/NAMESPACE][?parameter=value&…]", Skip: "the parts of a URL"},
			{Of: "pulsar-client consume -s look -p Earliest -n 0 persistent://public/orders/payments..0.k3m9q2xt", Skip: tools},
			{Of: "pulsar-client produce -k acct-42 -m 'debit 10' persistent://public/orders/payments..0.k3m9q2xt-partition-3", Skip: tools},
		},
	}.Run(t)
}
