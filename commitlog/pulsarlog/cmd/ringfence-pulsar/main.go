// Command ringfence-pulsar is ringfence with Apache Pulsar as one more commit log. It is a program
// of its own because Pulsar's client is larger than all the rest.
package main

import (
	"os"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/commitlog/pulsarlog"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/registry/etcdregistry"
	"github.com/ringfence/ringfence/registry/pgregistry"
	"github.com/ringfence/ringfence/registry/redisregistry"
	"github.com/ringfence/ringfence/registry/sqlregistry"
)

// backends are those of cmd/ringfence, and Pulsar.
func backends() []ringfence.Backend {
	return []ringfence.Backend{
		{Scheme: "pulsar", OpenLog: pulsarlog.OpenURL},
		{Scheme: "pulsar+ssl", OpenLog: pulsarlog.OpenURL},
		{Scheme: "kafka", OpenLog: kafkalog.OpenURL},
		{Scheme: "etcd", OpenRegistry: etcdregistry.OpenURL},
		{Scheme: "etcds", OpenRegistry: etcdregistry.OpenURL},
		{Scheme: "postgres", OpenRegistry: pgregistry.OpenURL},
		{Scheme: "postgresql", OpenRegistry: pgregistry.OpenURL},
		{Scheme: "redis", OpenRegistry: redisregistry.OpenURL},
		{Scheme: "rediss", OpenRegistry: redisregistry.OpenURL},
		{Scheme: "mysql", OpenRegistry: sqlregistry.OpenURL},
		{Scheme: "mariadb", OpenRegistry: sqlregistry.OpenURL},
		{Scheme: "sqlite", OpenRegistry: sqlregistry.OpenURL},
	}
}

func main() { os.Exit(cli.Main("ringfence-pulsar", backends())) }
