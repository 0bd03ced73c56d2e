// Package spell writes numbers and times as people read them.
package spell

import (
	"fmt"
	"strconv"
	"time"
)

// Thousands is 1234567 as 1,234,567.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural is "1 line" or "3 lines".
func Plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return Thousands(n) + " " + word + "s"
}

// Age is a time span in milliseconds: 340ms, 4.2s, 3m12s, 5h3m, 2d4h; "-" for none.
func Age(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case millis <= 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%dms", millis)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
