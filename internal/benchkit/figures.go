package benchkit

import (
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	value    = measure.Value
	ratio    = measure.Ratio
	p99      = measure.P99
	p99Ratio = measure.P99Ratio
)

func atLeast(kind, name string, of measure.Of, need float64, where ...string) measure.Promise {
	return measure.Promise{Kind: kind, Name: name, Of: of, Need: need, Where: where}
}

func atMost(kind, name string, of measure.Of, need float64, where ...string) measure.Promise {
	p := atLeast(kind, name, of, need, where...)
	p.AtMost = true
	return p
}

// growing is a promise whose limit grows with what a row is about.
func growing(each float64, p measure.Promise) measure.Promise {
	p.Each = each
	return p
}

// promised are all figures that the project promises of itself: of which rows, under which name, what
// of them, and the limit. On which stores stands last.
var promised = []measure.Promise{
	atLeast("produce 1", "durable, 1 in flight, of a raw write + fdatasync", ratio, 0.95),
	atLeast("produce 16", "durable, 16 in flight, of 16 x a raw write + fdatasync", ratio, 0.85),
	atLeast("produce 256 over 16", "durable, 256 in flight, 16 partitions, of one", ratio, 0.85),
	atMost("produce 256 over 16", "durable, 256 in flight, 16 partitions, p99 of that of one", p99Ratio, 2),
	atLeast("produce 256 over 64", "durable, 256 in flight, 64 partitions, of one", ratio, 0.75),
	atMost("produce 256 over 64", "durable, 256 in flight, 64 partitions, p99 of that of one", p99Ratio, 2),
	atLeast("produce 256 over 256", "durable, 256 in flight, 256 partitions, of one", ratio, 0.6),
	atMost("produce 256 over 256", "durable, 256 in flight, 256 partitions, p99 of that of one", p99Ratio, 2),
	atLeast("produce 4 from 4", "durable, 4 processes x 1 in flight, of one with 1", ratio, 1.8),
	atMost("produce 4 from 4", "durable, 4 processes x 1 in flight, p99", p99, 1500),
	atLeast("produce 256 from 4", "durable, 4 processes x 64 in flight, of one with 256", ratio, 0.65),
	atLeast("produce large", "durable, records of %d bytes, of the raw bandwidth", ratio, 0.8),

	atLeast("read", "%s, warm, verified", value, 20e6),
	atLeast("consume", "%s", value, 2e6),
	atMost("latency os", "produce to handler in another process, durability os", value, 100),
	atMost("latency sync", "produce to handler in another process, durable, of one raw write + fdatasync", ratio, 2),
	atMost("reopen", "%s, warm", value, 30),
	atMost("reopen", "%s, longer than with a tenth of them", measure.Longer, 5),

	atMost("takeover", "kill -9 to first record of the new owner, median", value, 20, "file"),
	atMost("takeover", "kill -9 to first record of the new owner, median", value, 100, "postgres", "redis", "mysql", "sqlite"),
	atMost("takeover", "kill -9 to first record of the new owner, median", value, 3000, "etcd"), // when the lease runs out
	atMost("takeover", "kill -9 to first record of the new owner, p99", measure.Tail, 100, "file"),
	atMost("takeover", "kill -9 to first record of the new owner, p99", measure.Tail, 500, "postgres", "redis", "mysql", "sqlite"),
	atMost("takeover", "kill -9 to first record of the new owner, p99", measure.Tail, 3000, "etcd"),
	atMost("takeover parked", "kill -9 to first record of the new owner of parked records, p99", measure.Tail, 300, "file"),
	atMost("clean move", "clean move, pause of a moved partition", value, 10, "file"),
	atMost("clean move", "clean move, pause of a moved partition", value, 50, "postgres", "redis", "mysql", "sqlite", "etcd"),
	atMost("repeated", "clean moves, records handled twice", value, 0),
	atMost("interrupted", "clean moves, interruptions of partitions that stay (%s)", measure.Sum, 0),

	atLeast("checkpoints", "fenced checkpoints in batches", value, 50_000, "postgres"),
	atLeast("checkpoints", "fenced checkpoints in batches", value, 100_000, "redis"),
	atLeast("checkpoints", "fenced checkpoints in batches", value, 30_000, "etcd"),
	atLeast("checkpoints", "fenced checkpoints in batches, of the same request issued bare", ratio, 0.5),
	atMost("seen", "%s, median", value, 20, "file", "postgres", "redis", "etcd"),

	atLeast("deliver", "%s, of Consume", ratio, 0.8),
	atLeast("deliver", "%s", value, 1e6),
	atLeast("deliver poison", "%s, rate of the others", ratio, 0.9),
	atLeast("deliver one", "%s, rate of the others", ratio, 0.97),
	atLeast("deliver tenth", "%s, rate of the others", ratio, 0.8),
	atLeast("deliver http", "%s, of a bare client", ratio, 0.7),
	atMost("deliver rebuild", "%s", value, 10),                       // 10 s of a million
	atMost("deliver memory", "memory of parked records", value, 300), // 300 MB of a million
	atMost("turn", "longest wait of a key when the shards of a subscription change", value, 1000, "file"),
	atMost("growth", "longest wait of a key when the topic of a subscription grows", value, 1000, "file"),
	atMost("turn order", "lost or out of order of %s delivered meanwhile", value, 0),
	atMost("outage", "%s", value, 2000),
	growing(4096, atMost("outage copies", "records copied in an outage, %s", value, 0)), // half of what a shard has in flight
	atMost("outage order", "lost, out of order or given up of %s", value, 0),

	atMost("lookup", "%s", value, 20),
	atMost("lookup allocations", "allocations of a lookup", value, 0),
	atMost("keys that move", "keys that move when one of %d %s, of 1/%[1]d", value, 1.1),
	atMost("route", "%s", value, 15),
	atMost("route allocations", "allocations of 1,024 keys", value, 0),
	atMost("assign", "%s", value, 50),
	growing(1, atMost("moves", "%s, units of live members that move", value, 0)),
	atMost("switch", "pause of produce at a switch", value, 50),
	atMost("order", "records lost, doubled or out of order", value, 0),
	growing(1.0/3, atMost("idle", "an idle group of %s on %s", value, 0)), // percent, of each process
	atMost("idle daemon", "a daemon of %s, idle", value, 2),               // percent
	atMost("idle memory", "resident memory of a daemon of %s, idle", value, 60),
	atMost("idle sessions", "sessions of a daemon of %s", value, 1),
	atMost("memory late", "memory of a consumer of %s, late of early", ratio, 1.25),
	growing(1, atMost("memory open", "memory of an open log with %[1]s", value, 10)), // MiB, and for each partition
	atMost("memory open", "memory of an open log with %s and %s, of that with a tenth of them", ratio, 1.25),
}
