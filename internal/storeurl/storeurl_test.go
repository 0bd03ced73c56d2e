package storeurl

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestUnknownParametersAreRefusedWithoutSecrets(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("kafka://me:hunter2@h:9092?colour=red&password=hunter3&acks=all")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parameters(u, "acks", "password")
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"colour", "acks, password"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter") {
		t.Errorf("%v: shows a secret", err)
	}
	q, err := Parameters(u, "acks", "password", "colour")
	if err != nil || q.Get("acks") != "all" {
		t.Fatalf("%v, %v", q, err)
	}
}

func TestAPasswordBehindASchemeWithoutSlashesIsNotShown(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"kafka:me:hunter2@host:9092": "kafka:…", "mysql:me:hunter2@host/db?tls=true": "mysql:…", "sqlite:rel/a.db": "sqlite:rel/a.db",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := Redact(u); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
