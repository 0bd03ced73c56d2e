package group

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// Process names this process in documents, for people: host-pid.
func Process() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// NewMember is the ID of a member that was given none: host-pid-random.
func NewMember() string {
	return fmt.Sprintf("%s-%s", Process(), strings.ToLower(rand.Text()[:6]))
}
