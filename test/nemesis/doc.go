// Package nemesis holds no code of the product: its tests hurt real member processes, the server
// of their registry, the brokers of their log and the network between them, in random order, under load; then they heal
// everything and let internal/history judge what all of them wrote down, for two groups and two
// namespaces that share the store. Each trouble is only counted once its harm was seen, and the
// judge has to see through histories with a lie in them.
//
// A short run for each store whose server is there is part of the tests: every kind of trouble
// comes once. RINGFENCE_SOAK makes it half an hour for each (RINGFENCE_NEMESIS_FOR: another time), and
// stops the server for a minute each time. The last lines of -v are the figures of all stores.
// RINGFENCE_NEMESIS_SEED repeats the order of the troubles of an earlier run, which prints it.
package nemesis
