package testserver

import (
	"os"
	"os/exec"
	"syscall"
)

// A killed test runs no cleanup, and its servers, in sessions of their own, would go on for ever. So each private server
// has a warden: a shell that reads a pipe, which ends with the test's process, and then stops what is left.
const wardenScript = `read -r _; [ -d "$RINGFENCE_SERVICES" ] || exit 0; "$0" stop; rm -rf "$RINGFENCE_SERVICES"; rmdir "$1"`

// watch starts a warden for the servers of a folder; release lets it go, once they are stopped.
func watch(script, dir string, env []string) (release func(), err error) {
	ends, ours, err := os.Pipe() // ours is closed on exec: no server holds it
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", wardenScript, script, dir) //nolint:noctx // it outlives the test on purpose
	cmd.Env, cmd.Stdin = env, ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal for the test's group is none for it
	err = cmd.Start()
	_ = ends.Close()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	return func() {
		_ = ours.Close()
		_ = cmd.Wait()
	}, nil
}
