package spell

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// What ParseTime and ParseBytes expect, in words.
const (
	TimeForm  = "a time such as 500ms, 2s, 1h or 7d"
	BytesForm = "a number of bytes such as 1000000, 10GB or 512MiB"
)

// ParseTime reads a time of Go, such as 1h30m, with days and weeks besides: 7d, 2w, 1d12h.
func ParseTime(text string) (time.Duration, error) {
	total, rest := time.Duration(0), text
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		head, tail, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(head, 10, 32)
		if err != nil || time.Duration(n) > (math.MaxInt64-total)/unit.size {
			return 0, errors.New("expected " + TimeForm)
		}
		total, rest = total+time.Duration(n)*unit.size, tail
	}
	if rest == "" && rest != text {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || total > 0 && (d < 0 || d > math.MaxInt64-total) {
		return 0, errors.New("expected " + TimeForm)
	}
	return total + d, nil
}

// ParseBytes reads a number of bytes, with a unit of a thousand (kB, MB, GB, TB, also without the B) or of 1,024 (KiB,
// MiB, GiB, TiB).
func ParseBytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "kKMGTiB")
	size, known := map[string]int64{
		"": 1, "B": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n > math.MaxInt64/size || n < math.MinInt64/size {
		return 0, errors.New("expected " + BytesForm)
	}
	return n * size, nil
}
