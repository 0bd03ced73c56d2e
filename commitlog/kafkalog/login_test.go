package kafkalog

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestThePasswordFileIsReadForEachLogin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	c := Config{User: "me", PasswordFile: file}
	m := c.mechanism()
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, sent, err := m.Authenticate(t.Context(), "h")
		if err != nil || string(sent) != "\x00me\x00"+want {
			t.Errorf("logged in with %q, %v; the file has %q", sent, err, want)
		}
	}
}

// The brokers of the URL may all be on this host, and name others.
func TestNoLoginGoesInTheClearToABrokerThatAnotherOneNames(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody is called
	for _, strict := range []bool{true, false} {
		c := Config{Brokers: []string{"127.0.0.1:9092"}, User: "me", Password: "x", Options: driver.Options{StrictTLS: strict}}
		c.setDefaults()
		client, err := c.client()
		if err != nil {
			t.Fatal(err)
		}
		dial, ok := client.OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error))
		client.Close()
		if !strict {
			continue // the client's own, or none
		}
		if !ok || dial == nil {
			t.Fatal("the client asks nobody before it connects")
		}
		if _, err := dial(over, "tcp", "192.0.2.1:9092"); !errors.Is(err, fault.Invalid) {
			t.Errorf("to another host: %v; expected that it is refused", err)
		}
		if _, err := dial(over, "tcp", "127.0.0.1:9092"); errors.Is(err, fault.Invalid) || err == nil {
			t.Errorf("to this host: %v; expected no more than that it is too late", err)
		}
	}
}
