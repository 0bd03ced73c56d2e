// Package prefetch asks the processor to bring memory into its caches before it is needed.
//
// A read of one partition among many jumps over the frames of the others. The hardware sees no
// pattern in that, and each frame would wait for memory some times over; asked for in time, it
// arrives while the frame before is being verified. It is a hint and has no other effect: memory
// of a mapped file that is not in the page cache is left where it is.
package prefetch
