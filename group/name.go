package group

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"strconv"
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

// Operator names the user of this process in documents, for people: user@host.
func Operator() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = cmp.Or(u.Username, name)
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	return name + "@" + host
}

// NewMember makes a default member ID: host-pid-random.
func NewMember() string {
	return fmt.Sprintf("%s-%s", Process(), strings.ToLower(rand.Text()[:6]))
}
