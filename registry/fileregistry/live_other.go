//go:build !linux

package fileregistry

import (
	"errors"
	"io"
)

// Without the kernel's help, a dead process is noticed by its heartbeat.

func announce(string, string) (io.Closer, error) { return nil, errors.ErrUnsupported }

type peer struct{}

func watchPeer(string) (*peer, error) { return nil, errors.ErrUnsupported }
func (p *peer) wait() bool            { return false }
func (p *peer) close()                {}

func gone(string) bool { return false }

func newInotifyWaker(string) (waker, error) { return nil, errors.ErrUnsupported }
