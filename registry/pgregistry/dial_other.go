//go:build !linux

package pgregistry

import "syscall"

// unackedTimeout is left to the keep-alives.
func unackedTimeout(string, string, syscall.RawConn) error { return nil }
