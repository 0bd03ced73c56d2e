package push

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

const (
	mostSecrets    = 2
	shortestSecret = 24
	longestSecret  = 64
	rereadAfter    = 10 * time.Second
)

// kept is the content of a file that is read again now and then.
type kept[T any] struct {
	load func() (T, error)
	log  *slog.Logger

	mu    sync.Mutex
	read  time.Time
	value T
}

// keep reads a file for the first time.
func keep[T any](log *slog.Logger, load func() (T, error)) (*kept[T], error) {
	v, err := load()
	return &kept[T]{load: load, log: log, read: time.Now(), value: v}, err
}

// current is the recent content of the file. When the file can't be read any more, that is logged, and
// the old content used on.
func (k *kept[T]) current(now time.Time) T {
	k.mu.Lock()
	value, due := k.value, now.Sub(k.read) >= rereadAfter
	if due {
		k.read = now // others go on with what there is
	}
	k.mu.Unlock()
	if !due {
		return value
	}
	fresh, err := k.load()
	if err != nil {
		k.log.Warn("what authenticates requests can't be read anew: that from before is used", "error", err)
		return value
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value = fresh
	return fresh
}

// CheckSecrets checks a file of secrets before it is used: fault.NotFound when there is none. Errors show
// nothing of its content.
func CheckSecrets(path string) error {
	_, err := readSecrets(path, "")
	if errors.Is(err, os.ErrNotExist) { // for a deliverer, that does not end the subscription
		return fmt.Errorf("secret file: open %s: %w: %w", path, os.ErrNotExist, fault.NotFound)
	}
	return err
}

// readSecrets reads the secrets of a file, none for "": one a line, and during a rotation two, the new one first.
// The form is that of Standard Webhooks: base64 of 24 to 64 bytes, behind "whsec_" or not. A secret behind an origin
// signs only what goes there. Anyone who can edit a subscription chooses its secret file and its endpoint, and could
// otherwise get any text signed by the secret of another endpoint.
func readSecrets(path, origin string) ([][]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := storeurl.ReadPrivate("secret file", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	keys, err := parseSecrets(text, origin)
	if err != nil {
		return nil, fmt.Errorf("secret file %s: %w: %w", path, err, fault.Invalid)
	}
	return keys, nil
}

var (
	errSecrets = fmt.Errorf("expected one line, or two during a rotation, each \"whsec_\" and base64 of %d to %d bytes, perhaps behind an origin that it is for", shortestSecret, longestSecret)
	errOthers  = errors.New("its secrets are for other origins than that of the endpoint, and nothing else is signed with them")
)

// parseSecrets returns those for an origin; "": those of the first line's, to check them.
func parseSecrets(text []byte, origin string) ([][]byte, error) {
	var keys [][]byte
	others := false
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		secret := fields[len(fields)-1]
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) < shortestSecret || len(key) > longestSecret || len(fields) > 2 || len(fields) == 2 && !strings.Contains(fields[0], "://") {
			return nil, errSecrets // not err, which may show a part
		}
		if len(fields) == 2 {
			if origin == "" {
				origin = strings.TrimSuffix(fields[0], "/")
			}
			if !sameOrigin(fields[0], origin) {
				others = true
				continue
			}
		}
		keys = append(keys, key)
	}
	switch {
	case len(keys) == 0 && others:
		return nil, errOthers
	case len(keys) == 0 || len(keys) > mostSecrets:
		return nil, errSecrets
	}
	return keys, nil
}

// signatures is the header of Standard Webhooks: a signature by each secret over id, time and body.
func signatures(keys [][]byte, id string, at time.Time, body []byte) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}

// errTokens shows nothing of the file.
var errTokens = errors.New("expected lines of an origin, without a path, and its token, as in \"https://api.example.com 3f9c\"")

// tokenFor is the bearer token of an origin, such as "https://api.example.com", in a file of tokens; ""
// when it has none. A token stands beside the only host that may see it: no definition can send it to
// another one.
func tokenFor(path, origin string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := storeurl.ReadPrivate("token file", path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	token := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		_, err := Origin(fields[0]) // with anything more its token would silently go nowhere
		if err != nil || len(fields) != 2 || !plain(fields[1]) {
			return "", fmt.Errorf("token file %s: %w: %w", path, errTokens, fault.Invalid)
		}
		if token == "" && sameOrigin(fields[0], origin) {
			token = fields[1]
		}
	}
	return token, nil
}
