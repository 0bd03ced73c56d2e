package push_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

// BenchmarkDeliver posts to an endpoint of this process that answers 204, sixteen at a time on two cores:
// with a bare client, and with all that a delivery says and looks at. `bench deliver` has their ratio.
func BenchmarkDeliver(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	value := make([]byte, 100)

	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, bytes.NewReader(value))
				if err != nil {
					b.Error(err)
					return
				}
				res, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	})
	b.Run("endpoint", func(b *testing.B) {
		e, err := push.New(push.Config{URL: server.URL, Subscription: "bench", AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			m := &ringfence.Message{Topic: "posts", Key: []byte("key-1"), Value: value, Timestamp: time.UnixMilli(1), Attempt: 1, Epoch: 1}
			for pb.Next() {
				if err := e.Deliver(b.Context(), m); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
