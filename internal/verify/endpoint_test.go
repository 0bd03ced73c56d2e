package verify

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An endpoint that was killed knows the tokens of what it took.
func TestEndpointRefusesATokenBelowTheHighestOfItsKey(t *testing.T) {
	t.Parallel()
	s := &Spec{History: t.TempDir()}
	open := func() *endpoint {
		file, err := s.openTaken()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		e := &endpoint{Spec: s, file: file, tokens: map[string]string{}}
		if err := e.remember(); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	for i, c := range []struct {
		key   string
		token int
		want  int
	}{{"a/1", 5, 204}, {"a/1", 5, 204}, {"a/1", 4, 503}, {"a/2", 4, 204}, {"a/1", 6, 204}, {"a/1", 5, 503}} {
		if i == 4 {
			e = open()
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(""))
		r.Header.Set("Ringfence-Key", c.key)
		r.Header.Set("Ringfence-Token", fmt.Sprintf("%032x", c.token))
		attempt := 1
		for hiccup(c.key, sequenceOf(nil)-1, attempt) {
			attempt++
		}
		r.Header.Set("Ringfence-Attempt", fmt.Sprint(attempt))
		if got := e.answer(r); got != c.want {
			t.Errorf("request %d, token %d of %s: %d; expected %d", i, c.token, c.key, got, c.want)
		}
	}
}
