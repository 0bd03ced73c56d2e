package pulsarlog

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// answers stands for a broker's web service: what it says to a request, by the last part of its path.
type answers func(method, what string) (status int, body string)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r.Method, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// partition is one of a topic at such a broker.
func (a answers) partition() *partition {
	none := func() (string, error) { return "", nil }
	l := newLog(Config{}.withDefaults(), nil, &admin{web: &web{bases: []string{"http://broker/admin/v2"}, client: &http.Client{Transport: a}, token: none, patience: hostPatience}})
	return newPartition(newTopic(l, driver.TopicConfig{Name: "t", Partitions: 1}), 0)
}

const shape = `{"partitions":1}`

func lastConfirmed(entry int, state string) string {
	return fmt.Sprintf(`{"lastConfirmedEntry":"7:%d","state":%q,"ledgers":[{"ledgerId":7}]}`, entry, state)
}

// A broker that terminates a partition says so while entries are on their way still. Records that
// were acknowledged lie behind the end that it shows then.
func TestASealedPartitionEndsWhereTheBrokerHasWrittenItDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := answers(func(_, what string) (int, string) {
			now := time.Since(began)
			switch {
			case what == "partitions":
				return http.StatusOK, shape
			case what == "internalStats" && now < time.Second:
				return http.StatusOK, lastConfirmed(20, "LedgerOpened")
			case what == "internalStats" && now < 2*time.Second:
				return http.StatusOK, lastConfirmed(21, "Terminated")
			case what == "internalStats": // it goes back for a moment while answers are handed out
				return http.StatusOK, lastConfirmed(22, "Terminated")
			case what == "internal-info" && now < 3*time.Second:
				return http.StatusOK, `{"ledgers":[]}`
			case what == "internal-info":
				return http.StatusOK, `{"ledgers":[],"terminatedPosition":{"ledgerId":7,"entryId":25}}`
			}
			t.Errorf("asked for %s", what)
			return http.StatusNotFound, ""
		}).partition()
		end := func(entry int64) int64 {
			at, err := after(7, entry)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		b, err := p.bounds(t.Context())
		if err != nil || b.Sealed || b.Next != end(20) {
			t.Errorf("before: %+v, %v; expected an open partition up to %d", b, err, end(20))
		}
		for range 3 {
			time.Sleep(time.Second)
			b, err = p.bounds(t.Context())
			if err != nil || !b.Sealed || b.Next != end(25) {
				t.Errorf("sealed: %+v, %v; expected the end %d", b, err, end(25))
			}
		}
		if !p.isFinal(end(25)) || p.isFinal(end(25)-1) {
			t.Error("readers would not stop at the end, or before it")
		}
	})
}

// Nobody can read a partition to its end that the broker does not finish to end.
func TestAnEndThatIsNeverWrittenDownIsBegunAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unloads := 0
		p := answers(func(method, what string) (int, string) {
			switch what {
			case "partitions":
				return http.StatusOK, shape
			case "internalStats":
				if unloads > 0 {
					return http.StatusOK, lastConfirmed(20, "LedgerOpened")
				}
				return http.StatusOK, lastConfirmed(20, "Terminated")
			case "internal-info":
				return http.StatusOK, `{"ledgers":[]}`
			case "unload":
				unloads++
			default:
				t.Errorf("asked for %s %s", method, what)
			}
			return http.StatusNoContent, ""
		}).partition()
		if b, err := p.bounds(t.Context()); !errors.Is(err, fault.Unavailable) || unloads != 1 {
			t.Errorf("%+v, %v after %d unloads; expected that it is unavailable, and that the broker was told to load it anew", b, err, unloads)
		}
		if b, err := p.bounds(t.Context()); err != nil || b.Sealed {
			t.Errorf("loaded anew: %+v, %v; expected an open partition", b, err)
		}
	})
}
