package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

// endpoint takes records by HTTP until it is interrupted: endpoint URLFILE TOOKFILE. It writes its own URL
// to the one file, and a line for each record to the other. It has no use for the value "bad" while there
// is no file "mended".
func endpoint() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(os.Args[1], fmt.Appendf(nil, "http://%s/in", l.Addr()), 0o600)
	}
	var took *os.File
	if err == nil {
		took, err = os.OpenFile(os.Args[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer took.Close()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows in the line
		if _, err := os.Stat("mended"); err != nil && string(body) == "bad" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "what is \x1b[31mthat?")
			return
		}
		if id := r.Header.Get("Ce-Id"); id != "" {
			fmt.Fprintf(took, "event %s of %s %q\n", r.Header.Get("Ce-Specversion"), r.Header.Get("Ce-Source"), body)
		}
		fmt.Fprintf(took, "%s %s %s signed %t token %q\n", r.Header.Get("Ringfence-Subscription"), r.Header.Get("Ringfence-Key"), body,
			r.Header.Get("Webhook-Signature") != "", r.Header.Get("Authorization"))
	})}
	go func() { _ = s.Serve(l) }() // ends with the process
	<-ctx.Done()
	_ = s.Close()
	return 0
}
