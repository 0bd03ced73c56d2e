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

// NewMember makes a default member ID: host-pid-random.
func NewMember() string {
	return fmt.Sprintf("%s-%s", Process(), strings.ToLower(rand.Text()[:6]))
}
