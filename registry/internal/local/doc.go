// Package local lets processes of one host notice through the kernel that another one has died, by the end of
// a FIFO, or calls, by inotify. Neither takes a thread or polls.
package local
