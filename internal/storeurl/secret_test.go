package storeurl

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// places are where people put a secret, in forms that stores take, and in ones that they take for something
// else: %s is the secret.
var places = []string{
	"%[2]s://me:%[1]s@h:1/db", "%[2]s://:%[1]s@h", "%[2]s://%[1]s@h", "%[2]s://%[1]s:@h", "%[2]s://me:%[1]s@h,i,j/db?x=y", "%[2]s://me:a/%[1]s@h", "%[2]s://me:a?%[1]s@h",
	"%[2]s://me:a#%[1]s@h", "%[2]s://h/db?password=%[1]s", "%[2]s://h?token=%[1]s&x=y", "%[2]s://h?sentinel_password=%[1]s", "%[2]s://h?sslpassword=%[1]s", "%[2]s://h/db&password=%[1]s",
	"%[2]s://h;password=%[1]s", "%[2]s:me:%[1]s@h", "%[2]s:%[1]s@h", "%[2]s:/me:%[1]s@h", "%[2]s:/%[1]s@h", "%[2]s://h#%[1]s", "%[2]s://h?addr=me:%[1]s@h", "%[2]s://h?%[1]s@i", "%[2]s://%[1]s?x@h",
	"%[2]s://%[1]s/x@h", "%[2]s://me;password=%[1]s@h", "//me:%[1]s@h", "me:%[1]s@h", "%[1]s@h", "%[1]s:@h", "addr=me:%[1]s@h", "host=h password=%[1]s", "host=h password='%[1]s' user=me", "password = %[1]s",
}

// servers are the schemes of stores that have passwords.
var servers = slices.DeleteFunc(slices.Clone(schemes), func(s string) bool { return s == "file" || s == "sqlite" })

// Whatever is made of the text of a store, no message about it shows what is secret in it.
func TestNoMessageAboutAStoreShowsItsSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, place := range places {
		for _, scheme := range servers {
			if raw := fmt.Sprintf(place, secret, scheme); shows(raw, secret) != "" {
				t.Errorf("%s is shown as %s", raw, shows(raw, secret))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z+/=%!$]{0,3}`).Draw(t, "before") + secret + rapid.StringMatching(`[A-Za-z0-9+/=%?#&;!]{0,4}`).Draw(t, "behind")
		raw := fmt.Sprintf(rapid.SampledFrom(places).Draw(t, "place"), value, rapid.SampledFrom(servers).Draw(t, "scheme"))
		if said := shows(raw, secret); said != "" {
			t.Fatalf("%s is shown as %s", raw, said)
		}
	})
}

// shows is the first message about a store's text that has its secret in it; "": none has.
func shows(raw, secret string) string {
	said := []string{RedactText(raw), Quote(raw)}
	if u, err := url.Parse(raw); err == nil {
		said = append(said, Redact(u))
		q, _ := url.ParseQuery(u.RawQuery)
		_, parameters := Parameters(u, "x", "password", "token", "sentinel_password", "sslpassword", "addr")
		_, truth := Bool(u, q, "x")
		_, file := FileOfPassword(u, url.Values{PasswordFile: {""}})
		_, both := FileOfPassword(u, url.Values{PasswordFile: {"/f"}})
		_, tls := TLS(u, url.Values{"ca": {"/none"}}, TLSNames{CA: "ca"}, "insecure=true", false)
		_, noCA := TLS(u, url.Values{"ca": {"/none"}}, TLSNames{CA: "ca"}, "", false)
		for _, err := range []error{parameters, truth, file, both, tls, noCA} {
			said = append(said, fmt.Sprint(err))
		}
	}
	i := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, secret) })
	if i < 0 {
		return ""
	}
	return said[i]
}
