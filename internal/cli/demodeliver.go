package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/demo"
	"github.com/ringfence/ringfence/internal/fault"
)

// demoEndpointName is the hidden command of the receiver of "demo --deliver".
const demoEndpointName = "demo-endpoint"

// demoDeliver tells the story of a subscription, in a namespace of its own: its daemons deliver nothing else.
func (a *app) demoDeliver(ctx context.Context, c demo.Config) error {
	c.Client.Namespace = strings.Trim(c.Client.Namespace+"-demo-"+strconv.FormatInt(int64(os.Getpid()), 36), "-")
	client := c.Client
	result, err := demo.Deliver(ctx, demo.DeliverConfig{
		Config: c,
		DaemonArgs: func() []string {
			return append(a.storeArgs(client), "serve", "--timeout=0", "--allow-net=127.0.0.0/8", "--session-ttl=1s")
		},
		EndpointArgs: func(e demo.Endpoint) []string { return demoEndpointArgs(e, os.Getpid()) },
	})
	if err != nil && !errors.Is(err, demo.ErrBroken) {
		return err
	}
	if printErr := a.emit(result, func(r *report) { deliverEnd(r, result) }); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil && a.global.format == "text" {
		return fmt.Errorf("%w: %w", errReported, err)
	}
	return err
}

func deliverEnd(r *report, d *demo.DeliverResult) {
	if len(d.Broken) == 0 {
		r.line("\n%s after %.1f s: none lost, every key in order, one dead letter.", r.paint(green, "Every promise was kept"), d.Seconds)
		return
	}
	r.line("\n%s; see above.", r.paint(red, "Promises were broken"))
}

func demoEndpointArgs(e demo.Endpoint, parent int) []string {
	return []string{demoEndpointName, "--timeout=0", "--addr=" + e.Addr, "--folder=" + e.Folder, "--forget=" + strconv.FormatBool(e.Forget), "--parent=" + strconv.Itoa(parent)}
}

// demoEndpoint is the hidden command that the receiver runs.
func (a *app) demoEndpoint() *cobra.Command {
	var e demo.Endpoint
	var parent int
	cmd := &cobra.Command{Use: demoEndpointName, Hidden: true, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&e.Addr, "addr", "", "")
	fl.StringVar(&e.Folder, "folder", "", "")
	fl.BoolVar(&e.Forget, "forget", false, "")
	fl.IntVar(&parent, "parent", 0, "")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if parent != 0 && os.Getppid() != parent {
			return errors.New("the demo that started this endpoint is gone")
		}
		return e.Serve(ctx)
	})
	return cmd
}

// checkDeliver refuses what is no part of that story.
func (f *demoFlags) checkDeliver(cmd *cobra.Command) error {
	for _, name := range []string{"partitions", "consumers", "messages", "in-process"} {
		if f.deliver && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is of the demo of consumers; expected --deliver without it: %w", name, fault.Invalid)
		}
	}
	return nil
}
