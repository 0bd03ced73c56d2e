//go:build unix && !linux

package main

import "syscall"

// ownGroup gives a command its own process group, so that Ctrl-C on a terminal drains this
// process and does not end what it waits for.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func endGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // gone already: fine
