package remote

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/remote/core"
)

func TestRecordLineIsThatOfConsume(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "plain", "\"quoted\\\"", "a\tb\nc\r\b\f\x00\x1f\x7f", "ünïcödé 🦊", "line\u2028and\u2029paragraph\u2027", "<b>&amp;</b>", "\xff\xfe", "\xe2", "\xe2\x80"} {
		r := &record{topic: "orders", storage: 1, partition: 2, offset: 3, attempt: 2, value: []byte(value), timestamp: 1700000000123}
		r.Unit, r.Token = &core.Unit{Epoch: 258}, 5
		want := api.Record{
			Topic: "orders", Storage: 1, Partition: 2, Offset: 3, Epoch: 258, Token: "00000000000001020000000000000005",
			Timestamp: api.TimeOf(time.UnixMilli(1700000000123)), Attempt: 2, Headers: []api.Header{},
		}
		if value != "" {
			r.key = []byte(value)
			r.headers = []commitlog.Header{{Name: "h\"1", Value: []byte(value)}, {Name: "h2", Value: nil}}
			want.Headers = make([]api.Header, 2)
			want.Headers[0].Name, want.Headers[1].Name = "h\"1", "h2"
			want.Headers[0].Value, want.Headers[0].ValueEncoding = api.Text(r.key)
		}
		want.Key, want.KeyEncoding = api.KeyText(r.key)
		want.Value, want.ValueEncoding = api.Text(r.value)
		line, err := want.Line()
		if err != nil {
			t.Fatal(err)
		}
		r.Data = r
		got := (&Session{}).appendLine(nil, &core.Line{N: 7, Kind: core.Handed, Record: &r.Record}, 0)
		if s := strings.Replace(string(line), "{", `{"n":7,"type":"record",`, 1); string(got) != s {
			t.Errorf("%q: %s expected %s", value, got, s)
		}
	}
}

func TestLinesAreJSON(t *testing.T) {
	t.Parallel()
	h := &Hub{}
	p := &pool{hub: h, core: core.NewPool(false, nil)}
	s := &Session{hub: h, pool: p, id: "p-1", params: Params{Member: "m\n"}, core: p.core.Open(0, core.Config{Window: 3, WindowBytes: 4, TTL: 5 * time.Second})}
	u := &core.Unit{Storage: 1, Partition: 2, Epoch: 3}
	for kind, want := range map[core.Kind]string{
		core.Opened:   `{"n":1,"type":"session","id":"p-1","member":"m\n","window":3,"window_bytes":4,"ttl_ms":5000}`,
		core.Assigned: `{"n":1,"type":"assigned","storage":1,"partition":2,"epoch":3,"checkpoint":null,"from":"o","why":"w"}`,
		core.Cancel:   `{"n":1,"type":"cancel","records":[4,5],"why":"w"}`,
		core.Revoke:   `{"n":1,"type":"revoke","storage":1,"partition":2,"epoch":3,"until_ms":2000,"why":"w"}`,
		core.Revoked:  `{"n":1,"type":"revoked","storage":1,"partition":2,"epoch":3,"checkpoint":null,"to":"o","why":"w"}`,
		core.Lost:     `{"n":1,"type":"lost","storage":1,"partition":2,"epoch":3,"records":[4,5],"why":"w"}`,
		core.Beat:     `{"n":1,"type":"beat"}`,
		core.Goodbye:  `{"n":1,"type":"goodbye","until_ms":2000,"retry_ms":60000,"why":"fenced"}`,
	} {
		l := core.Line{N: 1, Kind: kind, Unit: u, Records: []int64{4, 5}, Checkpoint: -1, Other: "o", Why: "w", Until: 3 * time.Second}
		switch kind {
		case core.Beat, core.Opened:
			l.Why = ""
		case core.Goodbye:
			l.Why = core.ByFence
		}
		if got := string(s.appendLine(nil, &l, time.Second)); got != want+"\n" || !json.Valid([]byte(got)) {
			t.Errorf("%s expected %s", got, want)
		}
	}
}

func TestAnswersAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "null", "[]", "7", `{"seen":1`, `{"seen":1}{}`, `{"seen":1} x`, `{"sehen":1}`, `{"seen":"1"}`, `{"seen":1.5}`, `{"done":1}`, `{"done":[null,"a"]}`,
		`{"seen":99999999999999999999}`, `{"failed":[1]}`, `{"failed":[{"n":1,"retry_ms":-1}]}`, `{"failed":[{"n":1,"retry_ms":86400001}]}`,
		`{"done":[` + strings.Repeat("1,", 100) + `1]}`, strings.Repeat(" ", limits.AnswersBytes+1),
	} {
		if p, err := parse([]byte(bad), 4); !errors.Is(err, fault.Invalid) {
			t.Errorf("%.60s: %+v, %v", bad, p, err)
		}
	}
	p, err := parse([]byte(`{"seen":9,"done":[1,2],"failed":[{"n":3,"error":"`+strings.Repeat("x", 5000)+`","retry_ms":50,"permanent":true,"outage":true}],"released":[4],"commit":8}`), 4)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Failed[0]
	if p.Seen != 9 || len(p.Done) != 2 || f.N != 3 || len(f.Error) != limits.AnswerErrorBytes || f.Pause != 50*time.Millisecond || !f.Permanent || !f.Outage || p.Released[0] != 4 || p.Commit != 8 {
		t.Fatalf("%+v", p)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"seen":9,"done":[1,2],"failed":[{"n":3,"error":"no","retry_ms":50}],"released":[4],"commit":8}`))
	f.Add([]byte(`{"seen":-1,"commit":-9,"done":[0,-5,9223372036854775807]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parse(body, 8)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		pool := core.NewPool(true, func() uint64 { return 1 })
		s := pool.Open(0, core.Config{Window: 8, WindowBytes: 100, TTL: time.Second})
		s.Attach(0)
		s.Take(0)
		if _, err := s.Answers(0, &core.Post{Seen: 1}); err != nil {
			t.Fatal(err)
		}
		u := &core.Unit{}
		for range 10 {
			pool.Offer(0, &core.Record{Unit: u, Size: 1})
		}
		s.Take(0)
		_, _ = s.Answers(0, p) // whatever it says, the window holds
		pool.Tick(0)
		if s.Out() > 8 {
			t.Fatalf("%d out", s.Out())
		}
	})
}
