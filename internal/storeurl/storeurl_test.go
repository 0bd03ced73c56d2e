package storeurl

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

func TestWhatHoldsAPasswordIsKnown(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"postgres://rf@db/rf": false, "postgres://rf:x@db/rf": true, "postgres://rf@db/rf?password=x": true,
		"postgres://db/rf?sslpassword=x": true, "redis://h": false, "redis://token@h": true, "redis://:x@h": true,
		"redis://h?sentinel_password=x": true, "kafka://h1:9092,h2:9092": false, "kafka://a:b@h": true,
		"mysql://u:a/b@h/db": true, "file:///var/lib/rf": false, "redis:x@h": true, "%zz:a@h": true,
		"pulsar://token@h": true, "pulsar+ssl://:x@h": true, "pulsar://h:6650": false, "etcd://rf@h": false,
	} {
		if got := HasPassword(raw); got != want {
			t.Errorf("%s: %v, expected %v", raw, got, want)
		}
	}
}

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

// Each URL has "s3cret" where people put what nobody may see.
func TestNoFormOfAURLShowsASecret(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"postgres://rf:s3cret@db:5432/rf?sslmode=disable": "postgres://rf:xxxxx@db:5432/rf?…",
		"redis://s3cret@host":                             "redis://xxxxx@host",
		"redis://s3cret@host:6379/0":                      "redis://xxxxx@host:6379/0",
		"redis://s3cret:@host":                            "redis://xxxxx@host",
		"redis://:s3cret@host":                            "redis://:xxxxx@host",
		"rediss://u:s3cret@a?addr=b&addr=c":               "rediss://u:xxxxx@a?…",
		"redis://a:1?sentinel_password=s3cret&master=rf":  "redis://a:1?…",
		"pulsar+ssl://h1:6651,h2:6651/a/b?token=s3cret":   "pulsar+ssl://h1:6651,h2:6651/a/b?…",
		"kafka://me:s3cret@h1:9092":                       "kafka://me:xxxxx@h1:9092",
		"kafka://me:s3cret@h1:9092,h2:9092":               "kafka://me:xxxxx@h1:9092,h2:9092",
		"etcd://me:s3/cret@h:2379":                        "etcd:…",
		"etcd://s3cret/cret@h:2379":                       "etcd:…",
		"etcd://s3cret?cret@h:2379":                       "etcd:…",
		"etcd://s3cret#cret@h:2379":                       "etcd:…",
		"etcd://h:2379#s3cret":                            "etcd://h:2379#…",
		"mysql://me:s3%zzcret@h/db":                       "mysql:…",
		"mysql://me:s3cret@[::1/db":                       "mysql:…",
		"mysql:me:s3cret@host/db?tls=true":                "mysql:…",
		"kafka:me:s3cret@host:9092":                       "kafka:…",
		"sqlite:rel/a.db":                                 "sqlite:…",
		"sqlite:///var/lib/a@b.db?durability=os":          "sqlite:///var/lib/a@b.db?…",
		"file:///var/lib/rf":                              "file:///var/lib/rf",
		"mem:":                                            "mem:",
		"me:s3cret@host":                                  "…",
		"//me:s3cret@host":                                "…",
		"host.example.org/s3cret":                         "host.example.org/s3cret",
		"host=h user=me password=s3cret":                  "…",
		"s3cret@host":                                     "…",
		"s3cret:@host":                                    "…",
		"addr=me:s3cret@host":                             "…",
		"postgres://h/db&password=s3cret":                 "postgres:…",
		"postgres://h;password=s3cret/db":                 "postgres:…",
		"postgres://me;password=s3cret@h/db":              "postgres://xxxxx@h/db",
		"postgres://me;password=s3cret:x@h/db":            "postgres://xxxxx@h/db",
	} {
		got := RedactText(raw)
		if got != want {
			t.Errorf("%s is shown as %s; expected %s", raw, got, want)
		}
		u, err := url.Parse(raw)
		if err != nil || !strings.Contains(raw, "://") {
			continue
		}
		if got := Redact(u); strings.HasPrefix(raw, u.Scheme+"://") && got != want {
			t.Errorf("%s, parsed, is shown as %s; expected %s", raw, got, want)
		}
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

// A value may stand where no URL belongs, and an error of somebody else's may hold one.
func TestNoMessageShowsASecretThatStandsInTheWrongPlace(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"redis://:hunter2@h":                      `"redis://:xxxxx@h"`,
		"redis://hunter2@h":                       `"redis://xxxxx@h"`,
		"postgres://me:hunter2@h/db?password=hun": `"postgres://me:xxxxx@h/db?…"`,
		"redis:hunter2@h":                         `"redis:…"`,
		"12x":                                     `"12x"`,
		"host=h password=hunter2":                 `"…"`,
		"hunter2@h":                               `"…"`,
		"12:30":                                   `"12:30"`,
		"a\nb\x1b":                                `"a\nb\x1b"`,
		strings.Repeat("é", mostQuoted):           `"` + strings.Repeat("é", mostQuoted) + `"`,
		strings.Repeat("é", mostQuoted) + "hunter": `"` + strings.Repeat("é", mostQuoted) + `"…`,
	} {
		if got := Quote(value); got != want {
			t.Errorf("%q is shown as %s; expected %s", value, got, want)
		}
	}
	for text, want := range map[string]string{
		`name "redis://:hunter2@h": no`:                                   `name "redis://:xxxxx@h": no`,
		"x redis://hunter2@h y":                                           "x redis://xxxxx@h y",
		"postgres://me:hunt@er2@h and mysql://a:hunter2@b":                "postgres://me:xxxxx@h and mysql://a:xxxxx@b",
		"https://h/a?password=hunter2&b=c, x?sentinel_password=hunter2 d": "https://h/a?password=xxxxx&b=c, x?sentinel_password=xxxxx d",
		"expected postgres://user@host:port/database":                     "expected postgres://user@host:port/database",
		"postgres://me:xxxxx@h?password-file=/a at http://h:80/x=y":       "postgres://me:xxxxx@h?password-file=/a at http://h:80/x=y",
		"/data/redis:/:hunter2@h/x and file:///a:b@c":                     "/data/redis:/:xxxxx@h/x and file:///a:b@c",
		"mail a@b": "mail a@b",
		"dial tcp: address me:hunter2@h:6379: too many colons":     "dial tcp: address me:xxxxx@h:6379: too many colons",
		"addr=me:hunter2@h and (x:hunter2@y)":                      "addr=me:xxxxx@h and (x:xxxxx@y)",
		"cannot parse `host=h password=hunter2 port=x`":            "cannot parse `host=h password=xxxxx port=x`",
		`cannot parse "host=h Password = 'hunter2 \'x' port=x" so`: `cannot parse "host=h Password = xxxxx port=x" so`,
		"token-file=/a password-file=/b, sslmode=require":          "token-file=/a password-file=/b, sslmode=require",
	} {
		if got := RedactAll(text); got != want {
			t.Errorf("%q is shown as %q; expected %q", text, got, want)
		}
	}
}
