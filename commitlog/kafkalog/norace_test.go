//go:build !race

package kafkalog

// appended is how often room that a slice grows by is allocated.
const appended = 1
