package pulsarlog

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Config is what a Pulsar log is opened with.
type Config struct {
	driver.Options // Durability OS is the same as Sync: Pulsar acknowledges what its bookies have on disk

	ServiceURL string // pulsar://h1:6650,h2:6650 or pulsar+ssl://host:6651; required
	// AdminURL of the REST interface, http://h1:8080,h2:8080; "": the hosts of ServiceURL with port 8080,
	// or 8443 with TLS. They are asked one after another when one does not answer.
	AdminURL  string
	Tenant    string // "": public
	Namespace string // "": default; it must exist

	Token     string // of Pulsar's token authentication
	TokenFile string // is read again for each connection; other users must not be able to read it
	TLSCA     string // file with the certificates to trust; "": those of the system
	TLSCert   string // file with the client's certificate
	TLSKey    string // file with its key

	Compression string // none, lz4, zlib, zstd or snappy; "": none
	// MaxMessageBytes is the broker's maxMessageSize: no append is larger. 0: 5 MiB, its default.
	MaxMessageBytes int

	logins *logins // of withDefaults
	// operationTimeout is how long the client tries to find a topic, or to open it.
	operationTimeout time.Duration
}

const (
	defaultMessageBytes = 5 << 20
	// messageOverhead is what an entry needs besides its messages.
	messageOverhead = 16 << 10
	connectTimeout  = 5 * time.Second
)

var compressions = map[string]pulsar.CompressionType{
	"": pulsar.NoCompression, "none": pulsar.NoCompression, "lz4": pulsar.LZ4, "zlib": pulsar.ZLib, "zstd": pulsar.ZSTD, "snappy": pulsar.SNAPPY,
}

func (c Config) withDefaults() Config {
	if c.Tenant == "" {
		c.Tenant = "public"
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = defaultMessageBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.operationTimeout == 0 {
		c.operationTimeout = 30 * time.Second
	}
	c.logins = newLogins(c) // one for all of its clients
	return c
}

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pulsar log: "+format+": %w", append(args, fault.Invalid)...))
	}
	u, err := url.Parse(c.ServiceURL)
	if err != nil || u.Host == "" || u.Scheme != "pulsar" && u.Scheme != "pulsar+ssl" {
		bad("the service URL is not like pulsar://host:6650 or pulsar+ssl://host:6651")
	}
	if _, err := webHosts(c.AdminURL); err != nil {
		bad("the admin URL (web=) is not like http://host:8080 or http://h1:8080,h2:8080")
	}
	if _, ok := compressions[c.Compression]; !ok {
		bad("compression %q; expected none, lz4, zlib, zstd or snappy", c.Compression)
	}
	if c.Token != "" && c.TokenFile != "" {
		bad("a token and a file of tokens; expected one of them")
	}
	if err := storeurl.CheckPassword(c.TokenFile); err != nil {
		errs = append(errs, fmt.Errorf("pulsar log: the token: %w", err))
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("a client's certificate needs its key, and the key its certificate (cert= and key=)")
	}
	if c.TLSCA != "" && !strings.HasPrefix(c.ServiceURL, "pulsar+ssl:") && !strings.HasPrefix(c.AdminURL, "https:") {
		bad("certificates to trust (ca=) are given, and would be used for nothing: nothing goes through TLS; expected pulsar+ssl:")
	}
	if c.MaxMessageBytes < 0 || c.MaxMessageBytes > 0 && c.MaxMessageBytes < 2*messageOverhead {
		bad("messages of %d bytes; expected %d or more", c.MaxMessageBytes, 2*messageOverhead)
	}
	if c.Durability != "" && c.Durability != driver.Sync && c.Durability != driver.OS {
		bad("durability %q; expected %q or %q", c.Durability, driver.Sync, driver.OS)
	}
	return errors.Join(errs...)
}

// OpenURL opens pulsar://[:TOKEN@]HOST:PORT[,HOST:PORT…][/TENANT/NAMESPACE][?web=URL&…], see
// docs/guide/pulsar.md. Unknown parameters are fault.Invalid; errors show no secrets.
func OpenURL(ctx context.Context, u *url.URL, o driver.Options) (*commitlog.Log, error) {
	q, err := storeurl.Parameters(u, "web", "token-file", storeurl.PasswordFile, "ca", "cert", "key", "compression", "max-message")
	if err != nil {
		return nil, err
	}
	c := Config{
		Options: o, ServiceURL: u.Scheme + "://" + u.Host,
		AdminURL: q.Get("web"), TokenFile: q.Get("token-file"), TLSCA: q.Get("ca"), TLSCert: q.Get("cert"), TLSKey: q.Get("key"),
		Compression: q.Get("compression"),
	}
	c.Token, _ = u.User.Password()
	if c.Token == "" && u.User.Username() != "" {
		return nil, fmt.Errorf("%s: a user, or a token in its place, would be used for nothing; expected %s://:TOKEN@host, or %s: %w", storeurl.Redact(u), u.Scheme, storeurl.PasswordFile, fault.Invalid)
	}
	file, err := storeurl.FileOfPassword(u, q)
	if err != nil {
		return nil, err
	}
	if file != "" && c.TokenFile != "" {
		return nil, fmt.Errorf("%s: token-file and %s are the same; expected one of them: %w", storeurl.Redact(u), storeurl.PasswordFile, fault.Invalid)
	}
	c.TokenFile = cmp.Or(c.TokenFile, file)
	if v := q.Get("max-message"); v != "" {
		if _, err := fmt.Sscanf(v, "%d", &c.MaxMessageBytes); err != nil || fmt.Sprint(c.MaxMessageBytes) != v {
			return nil, fmt.Errorf("%s: max-message: expected a number of bytes: %w", storeurl.Redact(u), fault.Invalid)
		}
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		parts := strings.Split(path, "/")
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("%s: the path is not like /tenant/namespace: %w", storeurl.Redact(u), fault.Invalid)
		}
		c.Tenant, c.Namespace = parts[0], parts[1]
	}
	return Open(ctx, c)
}

// Open connects to a Pulsar cluster. The namespace must exist (fault.NotFound). It is
// fault.Unavailable when the cluster does not answer.
func Open(ctx context.Context, c Config) (*commitlog.Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := c.checkPlaintext(); err != nil {
		return nil, err
	}
	tlsConfig, err := c.tls()
	if err != nil {
		return nil, err
	}
	a := c.admin(tlsConfig)
	if err := a.checkNamespace(ctx); err != nil {
		a.close()
		return nil, err
	}
	if err := c.checkBrokers(ctx); err != nil {
		a.close()
		return nil, err
	}
	client, err := c.newClient()
	if err != nil {
		a.close()
		return nil, err
	}
	return commitlog.New(newLog(c, client, a)), nil
}

// checkPlaintext is about the token, which goes to the brokers and to the REST interface.
func (c Config) checkPlaintext() error {
	if !c.hasToken() {
		return nil
	}
	return storeurl.Plaintext("pulsar log", c.plainHosts(), c.StrictTLS, c.Logger)
}

func (c Config) hasToken() bool { return c.Token != "" || c.TokenFile != "" }

// token is the one for the next connection.
func (c Config) token() (string, error) {
	if c.TokenFile != "" {
		return storeurl.ReadPassword(c.TokenFile)
	}
	return c.Token, nil
}

func (c Config) encrypted() bool { return strings.HasPrefix(c.ServiceURL, "pulsar+ssl:") }

// plainHosts are those of the configuration that are spoken to without TLS.
func (c Config) plainHosts() []string {
	var hosts []string
	if !c.encrypted() {
		hosts = strings.Split(c.host(), ",")
	}
	bases, _ := webHosts(c.AdminURL) // Validate has looked at it
	for _, base := range bases {
		if u, err := url.Parse(base); err == nil && u.Scheme == "http" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// newClient makes a client with connections of its own; it connects when it is used.
func (c Config) newClient() (pulsar.Client, error) {
	options := pulsar.ClientOptions{
		URL: c.ServiceURL, ConnectionTimeout: connectTimeout, OperationTimeout: c.operationTimeout,
		TLSTrustCertsFilePath: c.TLSCA, TLSValidateHostname: true, TLSMinVersion: tls.VersionTLS12,
		Logger: overheard{plog.NewLoggerWithSlog(slog.New(quiet{c.Logger.Handler()})), c.logins}, MetricsCardinality: pulsar.MetricsCardinalityNone,
		MetricsRegisterer: prometheus.NewRegistry(), MemoryLimitBytes: 256 << 20,
	}
	switch {
	case c.hasToken():
		options.Authentication = pulsar.NewAuthenticationTokenFromSupplier(c.logins.token)
	case c.TLSCert != "":
		options.Authentication = pulsar.NewAuthenticationTLS(c.TLSCert, c.TLSKey)
	}
	client, err := pulsar.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("pulsar at %s: %w: %w", c.host(), fault.Invalid, err)
	}
	return client, nil
}

func (c Config) host() string {
	u, err := url.Parse(c.ServiceURL)
	if err != nil {
		return "?"
	}
	return u.Host
}

// withPort is a host with its port, or Pulsar's port.
func (c Config) withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "6650"
	if c.encrypted() {
		port = "6651"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// checkBrokers says early what the client would only say after its time-out: that no broker listens.
func (c Config) checkBrokers(ctx context.Context) error {
	dialer := net.Dialer{Timeout: connectTimeout}
	var errs []error
	for host := range strings.SplitSeq(c.host(), ",") {
		conn, err := dialer.DialContext(ctx, "tcp", c.withPort(host))
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("pulsar's broker at %s does not answer: %w: %w", c.host(), fault.Unavailable, errors.Join(errs...))
}

// admin is the client of the REST interface.
func (c Config) admin(t *tls.Config) *admin {
	bases, err := webHosts(c.AdminURL)
	if err != nil || len(bases) == 0 {
		bases = c.defaultWebHosts(t != nil)
	}
	for i := range bases {
		bases[i] += "/admin/v2"
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	transport := &http.Transport{
		TLSClientConfig: t, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
	}
	w := &web{
		bases: bases, client: &http.Client{Transport: transport, Timeout: webTimeout, CheckRedirect: redirect(c.StrictTLS)}, transport: transport,
		token: c.token, patience: hostPatience,
	}
	return &admin{web: w, tenant: c.Tenant, namespace: c.Namespace}
}

// webHosts are the hosts of http://a:8080,b:8080/path, each as a URL of its own; nil for "".
func webHosts(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	scheme, rest, _ := strings.Cut(list, "://")
	hosts, path, _ := strings.Cut(rest, "/")
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("the scheme %q: %w", scheme, fault.Invalid)
	}
	var each []string
	for host := range strings.SplitSeq(hosts, ",") {
		one := strings.TrimSuffix(scheme+"://"+host+"/"+path, "/")
		if u, err := url.Parse(one); err != nil || u.Host == "" || u.Hostname() == "" {
			return nil, fmt.Errorf("the host %q: %w", host, fault.Invalid)
		}
		each = append(each, one)
	}
	return each, nil
}

// defaultWebHosts are those of the brokers, at the usual port.
func (c Config) defaultWebHosts(encrypted bool) []string {
	scheme, port := "http", "8080"
	if encrypted {
		scheme, port = "https", "8443"
	}
	var each []string
	for host := range strings.SplitSeq(c.host(), ",") {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		each = append(each, scheme+"://"+net.JoinHostPort(strings.Trim(host, "[]"), port))
	}
	return each
}

// tls is nil when neither URL asks for it.
func (c Config) tls() (*tls.Config, error) {
	if !strings.HasPrefix(c.ServiceURL, "pulsar+ssl:") && !strings.HasPrefix(c.AdminURL, "https:") {
		return nil, nil //nolint:nilnil // no TLS is no configuration
	}
	t, err := storeurl.LoadTLS(c.TLSCA, c.TLSCert, c.TLSKey, storeurl.TLSNames{CA: "ca=", Cert: "cert=", Key: "key="}, c.AllowShared)
	if err != nil {
		return nil, fmt.Errorf("pulsar log: %w", err)
	}
	return t, nil
}
