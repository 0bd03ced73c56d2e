package apply

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/spell"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// field is a field of a topic or a subscription: the flag of that name has the same meaning.
type field[C any] struct {
	name, expected string
	read           func(c *C, text string) bool
	show           func(c *C) string
	copy           func(to, from *C)
	secret         bool // what it has may hold a secret, and is shown without that
}

// TopicID matches the ID of a topic, whose form is TopicIDForm; that of one that was moved has the number of the move.
var TopicID = regexp.MustCompile(`^[a-z0-9]{8}(x[0-9]+)?$`)

// TopicIDForm says what the ID of a topic looks like.
const TopicIDForm = "8 letters and digits such as k3m9q2xt (k3m9q2xtx1 once it was moved), with which the names of its storage topics end"

// shown is a value for people.
func (f *field[C]) shown(value string) string {
	if f.secret {
		return storeurl.RedactText(value)
	}
	return value
}

func topicFields() []field[admin.TopicConfig] {
	type config = admin.TopicConfig
	return []field[config]{
		number("partitions", 1, func(c *config) *int { return &c.Partitions }),
		text("router", "modulo or range", func(c *config) *string { return (*string)(&c.Router) }),
		text("hash", "xxhash64, murmur2 or fnv1a", func(c *config) *string { return (*string)(&c.Hash) }),
		{
			name: "retention-bytes", expected: spell.BytesForm + ", or 0 (all)",
			read: func(c *config, text string) (ok bool) {
				n, err := spell.ParseBytes(text)
				c.RetentionBytes = n
				return err == nil && n >= 0
			},
			show: func(c *config) string { return strconv.FormatInt(c.RetentionBytes, 10) },
			copy: func(to, from *config) { to.RetentionBytes = from.RetentionBytes },
		},
		{
			name: "retention-age", expected: "a time in whole milliseconds such as 168h or 7d, or 0 (for ever)",
			read: func(c *config, text string) bool {
				age, err := spell.ParseTime(text)
				c.RetentionAgeMS = age.Milliseconds()
				return err == nil && age >= 0 && age%time.Millisecond == 0
			},
			show: func(c *config) string { return (time.Duration(c.RetentionAgeMS) * time.Millisecond).String() },
			copy: func(to, from *config) { to.RetentionAgeMS = from.RetentionAgeMS },
		},
		truth("retention-force", func(c *config) *bool { return &c.RetentionForce }),
		{
			name: "life", expected: TopicIDForm,
			read: func(c *config, text string) bool {
				c.ID = text
				return TopicID.MatchString(text)
			},
			show: func(c *config) string { return c.ID },
			copy: func(to, from *config) { to.ID = from.ID },
		},
	}
}

func subscriptionFields() []field[admin.SubscriptionConfig] {
	type config = admin.SubscriptionConfig
	endpoint := text("endpoint", "a URL", func(c *config) *string { return &c.Endpoint.URL })
	endpoint.secret = true
	return []field[config]{
		text("topic", "the name of a topic", func(c *config) *string { return &c.Topic }),
		text("order", "key or none", func(c *config) *string { return (*string)(&c.Order) }),
		text("from", "earliest or latest", func(c *config) *string { return (*string)(&c.From) }),
		number("shards", 1, func(c *config) *int { return &c.Shards }),
		number("attempts", 1, func(c *config) *int { return &c.Retry.Attempts }),
		duration("retry-initial", false, func(c *config) *time.Duration { return &c.Retry.Initial }),
		duration("retry-max", false, func(c *config) *time.Duration { return &c.Retry.Max }),
		duration("retry-after-max", false, func(c *config) *time.Duration { return &c.Retry.AfterMax }),
		duration("hold", true, func(c *config) *time.Duration { return &c.Hold }),
		text("dead-letters", "block, skip or drop", func(c *config) *string { return (*string)(&c.DeadLetters) }),
		text("filter", "an expression", func(c *config) *string { return &c.Filter }),
		limit("rate", func(c *config) *int { return &c.Rate }),
		limit("concurrency", func(c *config) *int { return &c.Concurrency }),
		endpoint,
		duration("timeout", false, func(c *config) *time.Duration { return &c.Endpoint.Timeout }),
		text("secret-file", "an absolute path", func(c *config) *string { return &c.Endpoint.SecretFile }),
		truth("cloudevents", func(c *config) *bool { return &c.Endpoint.CloudEvents }),
		truth("give-up-first", func(c *config) *bool { return &c.Endpoint.GiveUpFirst }),
	}
}

// Copy sets one setting of a subscription, by the name that it has in a file and as a flag, to that of another
// configuration.
func Copy(to, from *admin.SubscriptionConfig, name string) {
	for _, f := range subscriptionFields() {
		if f.name == name {
			f.copy(to, from)
		}
	}
}

// number is a field of so much at least.
func number[C any, N int | int64](name string, least N, at func(*C) *N) field[C] {
	return field[C]{
		name: name, expected: fmt.Sprintf("a number from %d on", least),
		read: func(c *C, text string) bool {
			n, err := strconv.ParseInt(text, 10, 64)
			*at(c) = N(n)
			return err == nil && n >= int64(least) && int64(N(n)) == n
		},
		show: func(c *C) string { return fmt.Sprint(*at(c)) },
		copy: func(to, from *C) { *at(to) = *at(from) },
	}
}

// limit is a field that is a bound, or 0: there is none.
func limit[C any](name string, at func(*C) *int) field[C] {
	f := number(name, 0, at)
	f.expected = "a number from 1 on, or 0 for no bound"
	f.show = func(c *C) string {
		if *at(c) == 0 {
			return "no bound"
		}
		return strconv.Itoa(*at(c))
	}
	return f
}

// truth is a field that is true or false.
func truth[C any](name string, at func(*C) *bool) field[C] {
	return field[C]{
		name: name, expected: "true or false",
		read: func(c *C, text string) bool {
			*at(c) = text == "true"
			return text == "true" || text == "false"
		},
		show: func(c *C) string { return strconv.FormatBool(*at(c)) },
		copy: func(to, from *C) { *at(to) = *at(from) },
	}
}

// text is a field that is a word: one of those expected, where they are given as "a, b or c".
func text[C any](name, expected string, at func(*C) *string) field[C] {
	words := strings.Split(strings.ReplaceAll(expected, " or ", ", "), ", ")
	return field[C]{
		name: name, expected: expected,
		read: func(c *C, text string) bool {
			*at(c) = text
			return text != "" && (len(words) == 1 || slices.Contains(words, text))
		},
		show: func(c *C) string { return *at(c) },
		copy: func(to, from *C) { *at(to) = *at(from) },
	}
}

// duration is a field that is a time above 0; where off is set, 0 or less too, for not at all.
func duration[C any](name string, off bool, at func(*C) *time.Duration) field[C] {
	expected := "a time such as 500ms, 2s or 1h, in whole milliseconds"
	if off {
		expected += ", or 0 (not at all)"
	}
	return field[C]{
		name: name, expected: expected,
		read: func(c *C, text string) bool {
			d, err := spell.ParseTime(text)
			if err == nil && d <= 0 && off {
				d = -time.Millisecond // as it is stored
			}
			*at(c) = d
			return err == nil && (d > 0 || d < 0 && off) && d%time.Millisecond == 0
		},
		show: func(c *C) string {
			if *at(c) < 0 {
				return "not at all"
			}
			return at(c).String()
		},
		copy: func(to, from *C) { *at(to) = *at(from) },
	}
}
