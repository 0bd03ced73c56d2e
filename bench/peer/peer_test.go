package peer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// require skips a peer whose server is missing, unless RINGFENCE_REQUIRE names it.
func require(t *testing.T, p Peer) {
	t.Helper()
	if p.Available() {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("RINGFENCE_REQUIRE"), ","), p.Name) {
		t.Fatalf("%s is required and was not found", p.Server)
	}
	t.Skipf("%s was not found", p.Server) //nolint:forbidigo // RINGFENCE_REQUIRE makes it a failure
}

func TestPeersKeepWhatTheyAcknowledge(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			require(t, p)
			err := script.Try(func(life *script.Script) {
				s := p.Open(t.Context(), life, Options{Dir: shortDir(t), InFlight: 4})
				scanAll(t, s, appendSome(t, s))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// shortDir is a folder whose path is short enough for a socket, and open to the servers' users.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rfb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// appendSome appends single values and a batch from four goroutines; every value has 10 bytes.
func appendSome(t *testing.T, s Store) int64 {
	t.Helper()
	script.Together(4, func(g int) {
		add := s.Appender()
		value := func(i int) []byte { return fmt.Appendf(nil, "%02d-%07d", g, i) }
		for i := range 5 {
			add(t.Context(), [][]byte{value(i)})
		}
		add(t.Context(), [][]byte{value(5), value(6), value(7)})
	})
	return 4 * 8
}

func scanAll(t *testing.T, s Store, want int64) {
	t.Helper()
	sc, ok := s.(Scanner)
	if !ok {
		return
	}
	if records, bytes := sc.Scan(t.Context(), want); records != want || bytes != 10*want {
		t.Errorf("read %d records and %d bytes; want %d and %d", records, bytes, want, 10*want)
	}
}

func TestNamedKeepsTheOrderAndNamesTheUnknown(t *testing.T) {
	t.Parallel()
	got, err := Named([]string{"nats", Ringfence})
	if err != nil || len(got) != 2 || got[0].Name != Ringfence {
		t.Errorf("got %v, %v; want ringfence first", got, err)
	}
	if _, err := Named([]string{"kafka"}); err == nil || !strings.Contains(err.Error(), `"kafka"`) {
		t.Errorf("got %v; want an error that names kafka", err)
	}
}
