package command

import "syscall"

// ownGroup gives a command its own process group, so that Ctrl-C on a terminal drains this
// process and does not end what it waits for, and makes the kernel end the command with this
// process, at once: after a kill -9 no command may go on beside that of the next owner. What the
// command has started, Watch ends. The kernel goes by the thread that started the command; Go ends
// no thread before its process, unless a goroutine ends that had locked one to itself, and nothing here
// does.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func endGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // gone already: fine
