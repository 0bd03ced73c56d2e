package kafkalog

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// Defaults and limits of Config.
const (
	DefaultClientID        = "ringfence"
	DefaultDeliveryTimeout = 30 * time.Second
	DefaultBufferBytes     = 32 << 20
	// MaxPrefixBytes keeps the longest topic name within what Kafka allows.
	MaxPrefixBytes = 40
)

// Compression names how batches are compressed.
type Compression string

// The compressions that every Kafka broker knows, but for gzip, which a seal needs for itself; see
// sealCodec. Batches of any of them, and of gzip, can be read.
const (
	None   Compression = "none"
	Snappy Compression = "snappy"
	LZ4    Compression = "lz4"
	Zstd   Compression = "zstd"
)

// Mechanism names how a user proves its identity.
type Mechanism string

// The SASL mechanisms with a user and a password.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
)

// Config says which cluster a log lives in and how it behaves. Only Brokers is required.
type Config struct {
	// Brokers are host:port of some brokers; the others are found through them.
	Brokers []string
	// Prefix is put in front of each topic's name in Kafka, so that several logs share a cluster.
	Prefix string
	// ClientID is shown in the broker's logs and quotas; "": DefaultClientID.
	ClientID string
	// Replication is the number of replicas of the topics that are created; 0: the broker's default.
	Replication int
	// Flush makes the brokers flush created topics to disk before each ack. Without it an ack says
	// that all in-sync replicas have the record, possibly in memory only. How many those are at
	// least is a matter of Durability: with Sync (the default) two, so that an ack survives the loss
	// of any one broker and its disk, but not a power failure of all at once; a topic that is created
	// with a single replica is flushed. Appends to topics of others that have less are refused. With
	// OS it is as the cluster has it.
	Flush bool
	// Compression of batches; "": None.
	Compression Compression
	// TLS is used when it is not nil.
	TLS *tls.Config
	// User, Password and Mechanism log in by SASL; User "": no login. Mechanism "": Plain.
	User, Password string
	Mechanism      Mechanism
	// PasswordFile holds Password in its place, and is read for each login. Other users must not be able
	// to read it.
	PasswordFile string
	// SASL logs in by any other mechanism of franz-go (pkg/sasl: OAUTHBEARER, AWS IAM, Kerberos), in
	// place of User, Password and Mechanism.
	SASL sasl.Mechanism
	// Client are further options of franz-go's clients, which count more than what is above: a
	// dialer, hooks for metrics. Several clients are made with them.
	Client []kgo.Opt
	// DeliveryTimeout is how long an append is tried before it fails; 0: DefaultDeliveryTimeout.
	DeliveryTimeout time.Duration
	// BufferBytes bounds what Append keeps in memory before it blocks; 0: DefaultBufferBytes.
	BufferBytes int
	driver.Options

	// retainEvery is how often a process looks what retention may drop in the topics it has open.
	retainEvery time.Duration
}

// Validate reports every fault of c at once.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no brokers; expected host:port of at least one"))
	}
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("broker %q; expected host:port", b))
		}
	}
	if strings.Trim(c.Prefix, nameBytes) != "" || len(c.Prefix) > MaxPrefixBytes {
		errs = append(errs, fmt.Errorf("the prefix %q; expected at most %d letters, digits, '.', '_' or '-'", c.Prefix, MaxPrefixBytes))
	}
	if c.Replication < 0 || c.Replication > 1000 {
		errs = append(errs, fmt.Errorf("replication %d; expected 0 (the broker's default) or more", c.Replication))
	}
	if !slices.Contains([]Compression{"", None, Snappy, LZ4, Zstd}, c.Compression) {
		errs = append(errs, fmt.Errorf("compression %q; expected none, snappy, lz4 or zstd", c.Compression))
	}
	if !slices.Contains([]Mechanism{"", Plain, ScramSHA256, ScramSHA512}, c.Mechanism) {
		errs = append(errs, fmt.Errorf("sasl %q; expected plain, scram-sha-256 or scram-sha-512", c.Mechanism))
	}
	if c.User == "" && (c.Mechanism != "" || c.Password != "" || c.PasswordFile != "") {
		errs = append(errs, errors.New("sasl or a password without a user; expected kafka://user:password@host:port"))
	}
	if c.Password != "" && c.PasswordFile != "" {
		errs = append(errs, errors.New("a password and a file with one; expected one of them"))
	}
	if err := storeurl.CheckPassword(c.PasswordFile); err != nil {
		errs = append(errs, err)
	}
	if c.SASL != nil && c.User != "" {
		errs = append(errs, errors.New("SASL and a user; expected one of them"))
	}
	if c.Durability != "" && c.Durability != driver.Sync && c.Durability != driver.OS {
		errs = append(errs, fmt.Errorf("durability %q; expected %q or %q", c.Durability, driver.Sync, driver.OS))
	}
	if c.DeliveryTimeout < 0 || c.BufferBytes < 0 {
		errs = append(errs, errors.New("DeliveryTimeout and BufferBytes; expected 0 (the default) or more"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kafka log configuration: %w: %w", fault.Invalid, err)
	}
	return nil
}

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func (c *Config) setDefaults() {
	c.ClientID = cmp.Or(c.ClientID, DefaultClientID)
	c.DeliveryTimeout = cmp.Or(c.DeliveryTimeout, DefaultDeliveryTimeout)
	c.BufferBytes = cmp.Or(c.BufferBytes, DefaultBufferBytes)
	c.retainEvery = cmp.Or(c.retainEvery, 30*time.Second) // a new retention is followed within a minute
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// mechanism is how the client logs in; nil: not at all.
func (c *Config) mechanism() sasl.Mechanism {
	if c.SASL != nil {
		return c.SASL
	}
	if c.User == "" {
		return nil
	}
	login := func(context.Context) (user, password string, err error) {
		if c.PasswordFile == "" {
			return c.User, c.Password, nil
		}
		password, err = storeurl.ReadPassword(c.PasswordFile)
		return c.User, password, err
	}
	byScram := func(ctx context.Context) (a scram.Auth, err error) {
		a.User, a.Pass, err = login(ctx)
		return a, err
	}
	switch c.Mechanism {
	case ScramSHA256:
		return scram.Sha256(byScram)
	case ScramSHA512:
		return scram.Sha512(byScram)
	default:
		return plain.Plain(func(ctx context.Context) (a plain.Auth, err error) {
			a.User, a.Pass, err = login(ctx)
			return a, err
		})
	}
}

// compressor is nil when batches are not compressed.
func (c *Config) compressor() (kgo.Compressor, error) {
	codec := map[Compression]kgo.CompressionCodec{
		Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}
	if c.Compression == "" || c.Compression == None {
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	return kgo.DefaultCompressor(codec[c.Compression])
}

// client makes one franz-go client: a set of connections to each broker.
func (c *Config) client() (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(dialTimeout),
		kgo.RequestTimeoutOverhead(requestTimeout),
		kgo.RetryTimeout(requestTimeout),
	}
	switch {
	case c.TLS != nil:
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	case c.StrictTLS && len(c.Client) == 0 && c.mechanism() != nil: // a dialer among Client may speak TLS
		opts = append(opts, kgo.Dialer(dialHere))
	}
	if m := c.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	opts = append(opts, c.Client...)
	client, err := kgo.NewClient(append(opts, kgo.BrokerMaxReadBytes(limits.KafkaFetchBytes), kgo.MaxDecompressBatchBytes(limits.KafkaBatchBytes))...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w: %w", fault.Invalid, err)
	}
	return client, nil
}

// decompressor is the one of a client, which bounds a batch.
func decompressor(c *kgo.Client) kgo.Decompressor {
	d, _ := c.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return d
}

// dialHere connects to no other host: the brokers name each other, so that it is not enough to look at
// those of the URL.
func dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	if err := storeurl.Plaintext("kafka log: a broker that another one named,", []string{address}, true, nil); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, network, address)
}

const dialTimeout = 5 * time.Second

// requestTimeout is how long a broker may take beyond the time that a request grants it.
const requestTimeout = 10 * time.Second
