package redisregistry

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

const benchCallers = 4

// checkpoints are fenced writes as the group's runtime makes them, of units that nobody else writes.
func checkpoints(b *testing.B, s *store, first, n int) []driver.Txn {
	b.Helper()
	txns := make([]driver.Txn, n)
	for i := range txns {
		txns[i] = driver.Txn{Puts: []driver.Put{{Key: fmt.Sprintf("groups/g/owners/%08d", first+i), Value: []byte("owner")}}}
	}
	owners, err := s.Apply(b.Context(), txns)
	if err != nil {
		b.Fatal(err)
	}
	for i := range txns {
		txns[i] = driver.Txn{
			Checks: []driver.Check{{Key: txns[i].Puts[0].Key, Version: owners[i].Versions[0]}},
			Puts: []driver.Put{{
				Key:   fmt.Sprintf("checkpoints/g/%08d", first+i),
				Value: []byte(`{"positions":[{"storage":0,"partition":3,"next":123456789}],"epoch":7,"member":"consumer-1","updated":1763712000000}`),
			}},
			Quiet: true,
		}
	}
	return txns
}

// burnt is the µs of processor time that the server has used.
func burnt(b *testing.B, s *store) float64 {
	text, err := s.client.Do(b.Context(), s.client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys)_main_thread:([\d.]+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		total += n * 1e6
	}
	return total
}

func BenchmarkCheckpoints(b *testing.B) {
	for _, batch := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprint("driver/batch=", batch), func(b *testing.B) {
			benchCheckpoints(b, batch, func(s *store, txns []driver.Txn) func(context.Context) error {
				return func(ctx context.Context) error {
					res, err := s.Apply(ctx, txns)
					if err == nil {
						err = res[0].Err
					}
					return err
				}
			})
		})
		b.Run(fmt.Sprint("bare/batch=", batch), func(b *testing.B) {
			benchCheckpoints(b, batch, func(s *store, txns []driver.Txn) func(context.Context) error { return bare(b, s, txns) })
		})
	}
}

// benchCheckpoints has some callers write batches, b.N checkpoints in all.
func benchCheckpoints(b *testing.B, batch int, prepare func(*store, []driver.Txn) func(context.Context) error) {
	s := mustOpen(b, server(b))
	calls := make([]func(context.Context) error, benchCallers)
	for i := range calls {
		calls[i] = prepare(s, checkpoints(b, s, i*batch, batch))
	}
	before := burnt(b, s)
	each := max(1, b.N/batch/benchCallers)
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(func() {
			for range each {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	done := float64(each * batch * benchCallers)
	b.ReportMetric(done/took.Seconds(), "checkpoints/s")
	b.ReportMetric((burnt(b, s)-before)/done, "server-µs/checkpoint")
}

// bare sends the same call of the same script over a connection of its own, made up beforehand.
func bare(b *testing.B, s *store, txns []driver.Txn) func(context.Context) error {
	cfg := server(b)
	c, err := net.Dial("tcp", cfg.Addresses[0])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	in := bufio.NewReaderSize(c, 1<<16)
	if cfg.Password != "" {
		if _, err := fmt.Fprintf(c, "AUTH %s\r\n", cfg.Password); err != nil {
			b.Fatal(err)
		}
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
			b.Fatalf("AUTH: %q, %v", line, err)
		}
	}
	sha, err := s.client.Do(b.Context(), s.client.B().ScriptLoad().Script(applyScript).Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	args := append([]string{"EVALSHA", sha, strconv.Itoa(len(s.names.keys))}, s.names.keys...)
	args = append(args, encode(txns, newID(), s.names.session, s.names.changes)...)
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(a), a)
	}
	out := []byte(request.String())
	return func(context.Context) error {
		if _, err := c.Write(out); err != nil {
			return err
		}
		for range 1 + len(txns) {
			line, err := in.ReadString('\n')
			if err != nil || (line[0] != '*' && line[0] != ':') || strings.HasPrefix(line, ":-") {
				return fmt.Errorf("answer %q, %w", line, err)
			}
		}
		return nil
	}
}
