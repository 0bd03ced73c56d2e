package cli

import "syscall"

// ownGroup gives a command its own process group, so that Ctrl-C on a terminal drains this
// process and does not end what it waits for, and makes the kernel end the command with this
// process: after a kill -9 no command may go on beside that of the next owner.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // gone already: fine
