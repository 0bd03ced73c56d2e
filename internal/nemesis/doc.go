// Package nemesis holds no code of the product: its tests hurt real member processes, the server
// of their registry and the network between them, in random order, under load; then they heal
// everything and let internal/history judge what all of them wrote down.
//
// A short run for each store whose server is there is part of the tests. RINGFENCE_SOAK makes it
// ten minutes; RINGFENCE_NEMESIS_SEED repeats the order of the faults of an earlier run, which
// prints it.
package nemesis
