package main

import "regexp"

const module = "github.com/ringfence/ringfence"

// stalling are the packages whose tests talk to servers or start processes, and which may get a
// second try. What holds a promise by itself is never among them: see the test of this list.
var stalling = []string{
	module, // its examples and tests of several processes
	module + "/bench/...",
	module + "/commitlog/kafkalog",
	module + "/commitlog/pulsarlog/...",
	module + "/examples/bank",
	module + "/internal/cli",
	module + "/internal/command",
	module + "/internal/freeze",
	module + "/internal/integration/...",
	module + "/internal/nemesis",
	module + "/internal/demo",
	module + "/internal/testserver",
	module + "/registry/etcdregistry",
	module + "/registry/pgregistry",
	module + "/registry/redisregistry",
	module + "/registry/sqlregistry",
	module + "/registry/sqlregistry/oracle",
}

// late are the words of a wait that was in vain, or too long. A failure without any of them, as a
// value that is another than was expected, has nothing to do with a stall.
var late = regexp.MustCompile(`(?i)deadline exceeded|tim(ed|e)[ -]?out|in vain|\bwait(ed|s|ing)?\b|\bwithin\b|\bunavailable\b|\bnever (made|came|opened|happened|got)\b|` +
	`\b(was|is|are) still\b|\btook\b|\bTTL\b|no signal|too (late|long)|not (ready|yet)|connection (refused|reset)|broken pipe|unexpected EOF|` +
	`\b\d+(\.\d+)?(µs|ms|s)\b|\b\d+m\d+(\.\d+)?s\b`)

// grave are words that no stall explains, wherever they stand in what a failed test or its package
// printed: of loss, order and fences, of the judge in internal/history, and of a broken program.
var grave = regexp.MustCompile(`(?i)\blost\b|\bloses?\b|\bloss\b|\backed\b|\backnowledged\b|\bmissing\b|\bvanish|\bis gone\b|\bare gone\b|\bdisappear|` +
	`out of order|\bdisorder|\breorder|in order: false|\bovert(ake|ook)|\boverlap|` +
	`\bdoubled?\b|\btwice\b|\bduplicate|\brepeated\b|\bskip(s|ped)?\b|` +
	`\b(went|goes|going|gone) back\b|\bback to \d|\bgiven out again\b|\bforg[eo]t|` +
	`broken promise|a promise|epochs increase|only the owner|one owner|one value|clean handoff|unfinished record|which nobody (sent|wrote)|another value|` +
	`\bfenc(e|ed|ing)\b|\bstale\b|overwr(ite|itten|ote)|\bcorrupt|\bdamaged?\b|certainly|` +
	`\b\d+ (records|messages|entries|values)\b[^\n]*\b(want|wanted|expected|of|sent)\b|` +
	`DATA RACE|race detected|\bpanic\b|fatal error|\bdeadlock|\bgoleak\b|\bleak(s|ed)?\b|unexpected goroutines|SIG(SEGV|BUS|ABRT|ILL)|checkptr`)
