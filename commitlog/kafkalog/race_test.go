//go:build race

package kafkalog

// appended is how often room that a slice grows by is allocated: under the race detector the compiler makes
// what is appended first.
const appended = 2
