//go:build amd64 || arm64

package prefetch

import "unsafe"

// Bytes asks for the cache lines of b.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// lines asks for the lines of n bytes at p, n > 0.
//
//go:noescape
func lines(p unsafe.Pointer, n int)
