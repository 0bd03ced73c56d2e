// Package crash is the crash matrix of the file log: its tests run filelog on the crashable
// file system of internal/vfs and look at what is left.
//
//	crash_test.go    power loss before every operation that changes something, many times over,
//	                 and again during the recovery from it
//	kill_test.go     a process killed or stopped before every operation while another goes on
//	fault_test.go    EIO, ENOSPC, EROFS and short writes at every operation
//	damage_test.go   files cut at every byte, bits flipped, pages replaced; specimen_test.go says
//	                 what a damaged log must still do
//	fuzz_test.go     every decoder on arbitrary bytes
//
// What must hold each time is in history_test.go: what was acked is there, at its offset, with
// its value; what was certainly refused is not; each producer's records are a prefix of what it
// sent; a producer that repeats itself is stored once; and appends go on.
//
// The matrix is bounded for CI. RINGFENCE_SOAK=1 makes it about a hundred times larger.
package crash
