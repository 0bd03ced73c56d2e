// Command etcd is a real etcd server of one node for tests: etcd's own code, with the defaults
// of its release, on a loopback port.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run() error {
	cfg, err := settings(os.Args[1:])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start on %s: %w", cfg.ListenClientUrls[0].Host, err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	case <-e.Server.StopNotify():
		return fmt.Errorf("the server stopped by itself; its log says why")
	}
}

// settings are etcd's defaults but for where it listens and what it logs.
func settings(args []string) (*embed.Config, error) {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder of its data")
	client := flags.String("client", "127.0.0.1:2379", "host:port for clients")
	peer := flags.String("peer", "127.0.0.1:2380", "host:port for peers; it has none, but listens")
	level := flags.String("log-level", "warn", "debug, info, warn or error")
	cert := flags.String("cert", "", "PEM file with the certificate for clients; with -key the server speaks TLS")
	key := flags.String("key", "", "PEM file with its key")
	ca := flags.String("client-ca", "", "PEM file with the authority that clients' certificates must come from")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *dir == "" || flags.NArg() > 0 {
		return nil, fmt.Errorf("expected -dir FOLDER and no further arguments, found %q", args)
	}
	cfg := embed.NewConfig()
	cfg.Dir = *dir
	cfg.LogLevel = *level
	cfg.LogOutputs = []string{"stderr"}
	// The default is set where etcd reads its flags, not here; with 0 it logs every request.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	scheme := "http"
	if *cert != "" {
		scheme = "https"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = *cert, *key
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = *ca, *ca != ""
	}
	cfg.ListenClientUrls = []url.URL{{Scheme: scheme, Host: *client}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: *peer}}
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg, nil
}
