package main

import (
	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/registry/etcdregistry"
	"github.com/ringfence/ringfence/registry/pgregistry"
	"github.com/ringfence/ringfence/registry/redisregistry"
	"github.com/ringfence/ringfence/registry/sqlregistry"
)

// backends is the explicit list of stores that this binary knows besides file: and mem:, which
// the library brings along. A store that is not in this list is not in the binary.
func backends() []ringfence.Backend {
	return []ringfence.Backend{
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
