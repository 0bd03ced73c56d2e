// Package backends lists the clients of all stores that live in this module, so that a program reaches
// any of them by its URL:
//
//	ringfence.Open(ctx, ringfence.Config{Log: log, Registry: registry, Backends: backends.All()})
//
// A program that imports it links every client. A program that needs few of them writes its own list of
// OpenURL functions by scheme, as [All] does. The front door itself knows file: and mem: only.
//
// Apache Pulsar (commitlog/pulsarlog) and Oracle (registry/sqlregistry/oracle) are modules of their own,
// because their clients are larger than all the rest.
//
// A new store in this module is a package, a line in [All], and its schemes in internal/storeurl. A log also
// has a row in the table of layers (internal/archtest), and so has a registry that imports more than the others.
package backends

import (
	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/registry/etcdregistry"
	"github.com/ringfence/ringfence/registry/pgregistry"
	"github.com/ringfence/ringfence/registry/redisregistry"
	"github.com/ringfence/ringfence/registry/sqlregistry"
)

// All are the stores besides file: and mem:, by the schemes of their URLs: kafka, etcd and etcds, postgres
// and postgresql, redis and rediss, mysql and mariadb, sqlite. The slice is the caller's.
func All() []ringfence.Backend {
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
