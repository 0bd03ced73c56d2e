//go:build !linux

package rest

// forgetProgram is not needed for anything but the memory that it would save.
func forgetProgram() {}
