package kafkalog

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestURLSaysEverything(t *testing.T) {
	t.Parallel()
	c, err := configOf(parse(t, "kafka://me:s%40cret@h1:9093,h2:9094?prefix=eu.&client-id=c&replication=3&flush=true&compression=zstd&sasl=scram-sha-256&delivery-timeout=5s&tls=true&tls-server-name=n"), false)
	if err != nil {
		t.Fatal(err)
	}
	if c.Validate() != nil || len(c.Brokers) != 2 || c.Brokers[1] != "h2:9094" || c.User != "me" || c.Password != "s@cret" || c.Prefix != "eu." || c.ClientID != "c" ||
		c.Replication != 3 || !c.Flush || c.Compression != Zstd || c.Mechanism != ScramSHA256 || c.DeliveryTimeout != 5*time.Second || c.TLS == nil || c.TLS.ServerName != "n" {
		t.Errorf("%+v, %v", c, c.Validate())
	}
	c, err = configOf(parse(t, "kafka://h"), false)
	if err != nil || c.Brokers[0] != "h:9092" || c.TLS != nil || c.Validate() != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAWrongURLIsRefusedWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"kafka://me:hunter2@h?colour=red", "kafka://me:hunter2@h/topic", "kafka://me:hunter2@h?replication=0", "kafka://me:hunter2@h?flush=maybe",
		"kafka://me:hunter2@h?delivery-timeout=5", "kafka://me:hunter2@h?tls=false&tls-ca=x", "kafka://me:hunter2@h?tls-ca=/does/not/exist",
		"kafka://me:hunter2@h?sasl=kerberos", "kafka://me:hunter2@h?compression=best", "kafka://h?sasl=plain", "kafka://", "kafka://me:hunter2@h?prefix=a/b",
	} {
		l, err := OpenURL(t.Context(), parse(t, s), driver.Options{})
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v; want an invalid argument", s, err)
		}
		if err == nil {
			l.Close()
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v shows a secret", s, err)
		}
	}
}

func TestABrokerThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := OpenURL(ctx, parse(t, "kafka://me:hunter2@127.0.0.1:1"), driver.Options{})
	if !errors.Is(err, fault.Unavailable) && !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("error %v", err)
	}
}

func TestSettingsGiveBackTheTopicConfig(t *testing.T) {
	t.Parallel()
	l := &kafkaLog{}
	for _, c := range []driver.TopicConfig{
		{}, {RetentionBytes: 1 << 40}, {RetentionAgeMillis: 1000}, {RetentionBytes: 10, RetentionAgeMillis: 7, RetentionForce: true}, {RetentionForce: true},
		{RetentionBytes: 1, RetentionForce: true},
	} {
		c.Name, c.Partitions = "t", 3
		s := l.settings(c)
		if got := configOfTopic("t", 3, s); got != c {
			t.Errorf("%+v is read back as %+v", c, got)
		}
		if own := s[retentionMillis] == "-1" && s[retentionBytes] == "-1"; own == c.RetentionForce {
			t.Errorf("%+v: Kafka keeps %s ms and %s bytes", c, s[retentionMillis], s[retentionBytes])
		}
	}
	foreign := configOfTopic("t", 3, map[string]string{retentionMillis: "604800000", retentionBytes: "-1", ownMillis: "-2", ownBytes: "-2", cleanupPolicy: "compact,delete"})
	if want := (driver.TopicConfig{Name: "t", Partitions: 3, RetentionAgeMillis: 604800000, RetentionForce: true, Compacted: true}); foreign != want {
		t.Errorf("Kafka's defaults are read as %+v; want %+v", foreign, want)
	}
}
