package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/etcdregistry"
)

const late = time.Minute

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func configured(t *testing.T, args ...string) *embed.Config {
	t.Helper()
	cfg, err := settings(append([]string{"-dir", t.TempDir(), "-client", free(t), "-peer", free(t), "-log-level", "panic"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func started(t *testing.T, cfg *embed.Config) (e *embed.Etcd, stop func()) {
	t.Helper()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(e.Close)
	t.Cleanup(stop)
	return e, stop
}

func ready(t *testing.T, e *embed.Etcd) {
	t.Helper()
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(late):
		t.Fatal("etcd is not ready")
	}
}

func opened(ctx context.Context, t *testing.T, raw string) (*registry.Registry, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := etcdregistry.OpenURL(ctx, u, driver.Options{})
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
	}
	return r, err
}

func put(ctx context.Context, r *registry.Registry, key string) error {
	_, err := r.Txn(ctx, registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte("v")}}})
	return err
}

// certificate makes files with an authority and what it signed, for a server and for clients.
func certificate(t *testing.T, name string) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(file, kind string, der []byte) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &authority.PublicKey, authority)
	must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &own.PublicKey, authority)
	must(err)
	ownDER, err := x509.MarshalECPrivateKey(own)
	must(err)
	return write("ca.pem", "CERTIFICATE", rootDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "EC PRIVATE KEY", ownDER)
}

func TestTLSChecksBothSides(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificate(t, "etcd.internal")
	other, _, _ := certificate(t, "etcd.internal")
	cfg := configured(t, "-cert", cert, "-key", key, "-client-ca", ca)
	e, _ := started(t, cfg)
	ready(t, e)
	host := cfg.ListenClientUrls[0].Host
	good := fmt.Sprintf("etcds://%s?ca=%s&cert=%s&key=%s&server_name=etcd.internal", host, ca, cert, key)
	r, err := opened(t.Context(), t, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), r, "k"); err != nil {
		t.Error(err)
	}
	for what, bad := range map[string]string{
		"plain TCP":                      "etcd://" + host,
		"another name":                   strings.Replace(good, "etcd.internal", "elsewhere", 1),
		"another authority":              strings.Replace(good, ca, other, 1),
		"no certificate of the client's": fmt.Sprintf("etcds://%s?ca=%s&server_name=etcd.internal", host, ca),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := opened(ctx, t, bad); err == nil {
			t.Errorf("%s: accepted", what)
		}
		cancel()
	}
}

// A node of three goes, the leader first; nothing that was acknowledged is lost, and what was
// fenced stays so.
func TestTheLossOfTheLeaderIsAPause(t *testing.T) {
	t.Parallel()
	nodes := make([]*embed.Config, 3)
	var members, hosts []string
	for i := range nodes {
		nodes[i] = configured(t)
		nodes[i].Name = fmt.Sprintf("n%d", i)
		members = append(members, nodes[i].Name+"="+nodes[i].AdvertisePeerUrls[0].String())
		hosts = append(hosts, nodes[i].ListenClientUrls[0].Host)
	}
	running, stops := make([]*embed.Etcd, len(nodes)), make([]func(), len(nodes))
	for i, cfg := range nodes {
		cfg.InitialCluster = strings.Join(members, ",")
		running[i], stops[i] = started(t, cfg)
	}
	for _, e := range running {
		ready(t, e)
	}
	r, err := opened(t.Context(), t, "etcd://"+strings.Join(hosts, ",")+"/rf")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := r.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), r, "w/before"); err != nil {
		t.Fatal(err)
	}
	signalled(t, changes)
	old, err := r.Get(t.Context(), "w/before")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range running {
		if e.Server.Leader() == e.Server.MemberID() {
			e.Server.HardStop() // before it can pass the leadership on
			stops[i]()
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 3*time.Second)
		err := put(try, r, "w/after")
		stop()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no write after the leader was lost: %v", err)
		}
	}
	signalled(t, changes)
	if e, err := r.Get(ctx, "w/before"); err != nil || e.Version != old.Version {
		t.Errorf("the entry from before: %+v, %v; expected version %s", e, err, old.Version)
	}
	if _, err := r.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: "w/after", Version: old.Version}}, Deletes: []string{"w/after"}}); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("a stale check: %v; expected a conflict", err)
	}
}

func signalled(t *testing.T, changes <-chan struct{}) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(late):
		t.Fatal("no signal")
	}
}
