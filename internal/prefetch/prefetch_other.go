//go:build !amd64 && !arm64

package prefetch

// Bytes does nothing on this architecture.
func Bytes([]byte) {}
