package pgregistry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/registry/driver"
)

// floods is a server that lets everybody in, and then says the same for ever: at once, or as the first answer.
func floods(t *testing.T, atOnce bool, what pgproto3.BackendMessage) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	one, err := what.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(one, 1+(64<<10)/len(one))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			b := pgproto3.NewBackend(c, c)
			if _, err = b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.AuthenticationOk{})
				if !atOnce {
					b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				}
				err = b.Flush()
			}
			if err == nil && !atOnce {
				_, err = b.Receive()
				b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("a")}}})
				_ = b.Flush()
			}
			for err == nil {
				_, err = c.Write(many)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestAServerThatSaysMoreAndMoreIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]string{
		"rows":     floods(t, false, &pgproto3.DataRow{Values: [][]byte{[]byte("off")}}),
		"settings": floods(t, true, &pgproto3.ParameterStatus{Name: "a", Value: "b"}),
		"notices":  floods(t, true, &pgproto3.NoticeResponse{Message: "hello"}),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		begun := time.Now()
		_, err := open(ctx, Config{URL: "postgres://rf@" + server + "/rf?sslmode=disable&connect_timeout=25"})
		cancel()
		t.Log(name, time.Since(begun), err)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v after %v", name, err, time.Since(begun))
		}
	}
}

func TestAnAnswerIsCountedHoweverItIsCut(t *testing.T) {
	t.Parallel()
	row := []byte{'D', 0, 0, 0, 6, 0, 0}
	notice := []byte{'N', 0, 0, 0, 5, 0}
	for name, c := range map[string]struct {
		one  []byte
		most int
	}{"rows": {row, limits.PostgresAnswerRows}, "notices": {notice, limits.PostgresAnswerNotices}} {
		sent := bytes.Repeat(c.one, c.most+1)
		a := &answerBound{from: bytes.NewReader(sent), to: io.Discard}
		if n, err := io.Copy(io.Discard, struct{ io.Reader }{io.LimitReader(a, int64(len(sent)-len(c.one)))}); err != nil {
			t.Errorf("%s: refused after %d of %d bytes: %v", name, n, len(sent), err)
		}
		if _, err := a.Read(make([]byte, len(c.one))); err == nil || err == io.EOF {
			t.Errorf("%s: one more passes: %v", name, err)
		}
		// A request in between begins anew.
		a = &answerBound{from: bytes.NewReader(sent), to: io.Discard}
		p := make([]byte, 7) // of no length that divides both
		for i := range len(sent) / len(p) {
			if i%1000 == 0 {
				_, _ = a.Write(nil)
			}
			if _, err := a.Read(p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	a := &answerBound{from: io.LimitReader(zeros{}, limits.PostgresAnswerBytes+1), to: io.Discard}
	a.skip = 1 << 40
	if n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{a}, make([]byte, 1<<20)); err == nil || n > limits.PostgresAnswerBytes {
		t.Errorf("%d bytes pass: %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
