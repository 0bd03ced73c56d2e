package sqlregistry

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// memberOf makes this test binary a member of the registry with that URL, until it is killed.
const memberOf = "RINGFENCE_TEST_MEMBER_OF"

func TestMain(m *testing.M) {
	if u := os.Getenv(memberOf); u != "" {
		if err := member(u); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most tests wait, for a TTL or a server
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func member(raw string) error {
	ctx := context.Background()
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	r, err := OpenURL(ctx, u, driver.Options{})
	if err != nil {
		return err
	}
	x, err := r.OpenSession(ctx, time.Minute)
	if err != nil {
		return err
	}
	if _, err := r.Txn(ctx, registry.Txn{Puts: []registry.Put{{Key: "member/" + x.ID(), Session: x.ID()}}}); err != nil {
		return err
	}
	fmt.Println("ready")
	<-x.Done()
	return fmt.Errorf("the session ended")
}

// spawn starts a member and returns when it is one.
func spawn(t *testing.T, u string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberOf+"="+u)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the member says %q: %v", line, err)
	}
	return cmd
}
