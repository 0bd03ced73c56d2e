// Package local is what processes of one host can know of each other through the kernel: that one
// has died, by the end of a FIFO, and that one calls, by inotify. Neither takes a thread or polls.
package local
