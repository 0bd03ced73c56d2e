//go:build !linux

package access

import "os"

// Nobody has looked at how this system lists rights, so the bits of a group are not forgiven.

func listedAt(string) bool { return true }

func listedOpen(*os.File) bool { return true }
