package measure

// promised are the figures promised of itself, each a ratio and a reason to choose Ringfence; bench has those beside others.
var promised = []Promise{
	// What durability costs: a record that is on the disk, against the disk alone.
	atLeast("produce 1", "durable, 1 in flight, of a raw write + fdatasync", 0.95),
	atLeast("produce 16", "durable, 16 in flight, of 16 x a raw write + fdatasync", 0.85),
	atLeast("produce large", "durable, large records, of the raw bandwidth", 0.8),
	atMost("latency sync", "produce to handler in another process, durable, of one raw write + fdatasync", 2),
	// What partitions and processes cost: both can be added as a program grows.
	atLeast("produce 256 over 64", "durable, 256 in flight, 64 partitions, of one", 0.75),
	atLeast("produce 256 from 4", "durable, 4 processes x 64 in flight, of one with 256", 0.65),
	// What order per key, checkpoints and the handler cost.
	atLeast("consume", "Consume, empty handler, of reading alone", 0.05),
	atLeast("checkpoints", "fenced checkpoints in batches, of the same request issued bare", 0.5),
	// How long work stands still when a process dies. Many systems wait for a session's time to live.
	atMost("takeover", "kill -9 to first record of the new owner, p99, of the session TTL", 0.02, "file"),
	atMost("takeover", "kill -9 to first record of the new owner, p99, of the session TTL", 0.1, "postgres", "redis", "mysql", "sqlite"),
	atMost("takeover", "kill -9 to first record of the new owner, p99, of the session TTL", 1.5, "etcd"), // its lease runs out
	// What a clean deployment disturbs.
	atMost("repeated", "clean moves, records handled twice", 0),
	atMost("interrupted", "clean moves, interruptions of partitions that stay", 0),
	atMost("moves", "a member joins: units that move, of the fewest possible", 1),
	// What subscriptions cost, and what failing records cost the others.
	atLeast("deliver", "subscription, empty handler, of Consume", 0.8),
	atLeast("deliver poison", "a fifth of the records fail, rate of the others", 0.9),
	atLeast("deliver http", "subscription with an endpoint, of a bare client", 0.7),
	// What it costs to have nothing to do, in percent of a core.
	atMost("idle", "an idle group of consumer processes", 1),
	atMost("idle daemon", "a daemon of idle subscriptions", 2),
}

func atLeast(kind, name string, need float64) Promise {
	return Promise{Kind: kind, Name: name, Need: need}
}

func atMost(kind, name string, need float64, where ...string) Promise {
	return Promise{Kind: kind, Name: name, AtMost: true, Need: need, Where: where}
}
