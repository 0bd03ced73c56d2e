package doctest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPages runs README and the guide, but for the page about Pulsar: see commitlog/pulsarlog.
func TestPages(t *testing.T) {
	t.Parallel()
	programs := Build(t, ".", "./cmd/ringfence")
	for _, p := range pages(endpoint(t)) {
		t.Run(p.Page, func(t *testing.T) {
			t.Parallel()
			p.Path = programs
			Compiled(t, p.Page)
			p.Run(t)
		})
	}
}

// own is a namespace that nobody else has.
func own() string { return fmt.Sprintf("doctest-%d", rand.Uint64()) }

// pages says of each page what its reader knows and the page does not say.
func pages(endpoint string) []Play {
	// Each page has names of its own, on servers that the other pages use at the same time.
	readme, grow, kafka := own(), own(), own()
	return []Play{
		{
			Page: "README.md",
			Env:  []string{"RINGFENCE_NAMESPACE=" + readme},
			Substitutes: []Substitute{
				{Text: "kafka://h1:9092,h2:9092", Server: "kafka", For: "$URL?prefix=" + readme + "."},
				{Text: "postgres://rf@db/rf", Server: "postgres", For: "'$URL'"},
			},
			Notes: []Note{
				{Of: "ringfence consume payments --group billing", Until: []string{"acct-42", "acct-7"}},
				{
					Of:     "ringfence consume payments --group mail --exec ./send",
					Before: `printf '#!/bin/sh\ncat' >send && chmod +x send`,
					Until:  []string{"acct-42", "acct-7"},
				},
				{Of: "ringfence group describe billing", Want: []string{`^group +billing`, `^lag +0 records`}},
				{Of: "ringfence top", Until: []string{`^billing +payments`, `^mail +payments`}},
				{
					Of: "ringfence consume payments --group billing --log kafka://h1:9092,h2:9092 --registry postgres://rf@db/rf",
					Before: `away="--log kafka://h1:9092,h2:9092 --registry postgres://rf@db/rf"
						eval ringfence topic create payments --partitions 8 $away && echo far | eval ringfence produce payments $away`,
					Until: []string{`"value":"far"`},
					After: "eval ringfence topic delete payments --force $away",
					Needs: []string{"kafka", "postgres"},
				},
			},
		},
		{Page: "CONTRIBUTING.md"},
		{
			Page: "docs/guide/cli.md",
			Notes: []Note{
				{
					Of: "data: /var/lib/rf        # flags that every command has", File: "settings.yaml",
					After: `RINGFENCE_CONFIG=settings.yaml ringfence topic create set --data set && ringfence topic describe set --data set --format json | grep -c '"state"' | grep -x 17`,
				},
				{Of: "# shop.yaml", File: "shop.yaml"},
				{Of: "ringfence apply -f shop.yaml --dry-run", Want: []string{"^would create topic orders$", "^would create subscription invoices$"}},
				{Of: "ringfence apply -f shop.yaml", Want: []string{"^created topic orders$"}, After: "ringfence apply -f shop.yaml | grep -x 'nothing to change'"},
				{Of: "seq 1000 | ringfence produce numbers", Want: []string{"stored 1,000 records"}},
				{Of: `printf 'acct-42:debit 10\n' | ringfence produce payments --key-sep : --header source=web`, Before: "ringfence topic create payments"},
				{Of: "ringfence produce clicks --file clicks.log --format json", Before: "seq 5000 >clicks.log && ringfence topic create clicks"},
				{Of: "tail -n +4712 clicks.log | ringfence produce clicks", Want: []string{"stored 289 records"}},
				{Of: "ringfence consume payments --group billing", Until: []string{"acct-42"}},
				{
					Of: "ringfence consume mails --group sender --exec ./send-mail --concurrency 4",
					Before: `printf '#!/bin/sh\nenv >env; echo sent' >send-mail && chmod +x send-mail
						ringfence topic create mails && echo hello | ringfence produce mails --key me`,
					Until: []string{"sent"},
				},
				{
					Of:   "RINGFENCE_RECORD_TOPIC  _STORAGE  _PARTITION  _OFFSET  _EPOCH  _ATTEMPT  _TIMESTAMP  _KEY  _WATCH",
					File: "names",
					After: `for name in $(sed s/RINGFENCE_RECORD// names); do echo "RINGFENCE_RECORD$name"; done | sort >shown
						sed -n 's/^\(RINGFENCE_RECORD_[A-Z]*\)=.*/\1/p' env | sort | diff shown -`,
				},
				{
					Of: "ringfence consume old --group copy --idle-exit 1s | ringfence produce new --input json",
					Before: `ringfence topic create old && ringfence topic create new
						seq 100 | ringfence produce old --key k --header a=b`,
					After: `for name in old new; do ringfence consume $name --group $name --max 100 | sed 's/.*"epoch":[0-9]*,//' >$name; done; diff old new`,
				},
				{Of: "ringfence tail payments --from earliest --key acct-42", Until: []string{`"epoch":0,"key":"acct-42"`}},
				{Of: "ringfence group describe billing --watch", Until: []string{`^group +billing`}},
				{Of: "ringfence top --by-lag", Until: []string{"^billing"}},
				{Of: "ringfence group seek billing --to 4711 --partition 3", Before: "seq 5000 | ringfence produce payments --partition 3", After: "ringfence group describe billing | grep '^ *3 .* 4,711 '"},
				{Of: "ringfence group pause billing --partition 3", After: "ringfence group describe billing --format json | grep paused"},
				{Of: "ringfence log check", Want: []string{"sound$"}},
				{Of: "ringfence log dump --topic payments..0 --partition 3 --records", Want: []string{" 5000$"}},
				{Of: "ringfence demo", Want: []string{"kill -9", "SIGSTOP", "ok +0 lost"}},
				{Of: "ringfence verify --for 10s", Want: []string{"0 lost, 0 doubled, 0 reordered, 0 skipped"}},
				{Of: "ringfence verify --for 10s --faults kill,stop --seed 4711 --format json", Want: []string{`"verdict": "kept"`}},
				{Of: "ringfence verify --for 10s --subscriptions", Want: []string{"0 lost, 0 doubled, 0 reordered, 0 skipped"}},
			},
		},
		deliver(endpoint),
		{
			Page: "docs/guide/benchmarks.md",
			// Short: the figures are not looked at, and stand for hours of calm.
			Env:         []string{"RINGFENCE_ROUNDS=1", "RINGFENCE_FOR=200ms", "RINGFENCE_RECORDS=2000", "RINGFENCE_KILLS=1"},
			Substitutes: []Substitute{{Text: "/mnt/disk", For: "."}},
			Notes: []Note{
				{Of: "ringfence bench all --dir /mnt/disk --format json", Want: []string{`"bench": "all"`}},
				{Of: "cd bench && go run ./cmd/peers -run latency", Skip: "the peers take minutes to build and are a module of their own, with tests of their own"},
				{Of: "bench durable, 256 in flight: 256 appends under way, 1 an append, 100-byte values, 5 rounds", Skip: "the outline of a table"},
				{Of: "bench all: 5 rounds of 1s each, in 5m5s", Skip: "figures of another machine"},
			},
		},
		{
			Page: "docs/guide/grow.md",
			Env:  []string{"RINGFENCE_NAMESPACE=" + grow},
			Substitutes: []Substitute{
				{Text: "file:///var/lib/rf", For: "file:$HOME/rf"},
				{Text: "kafka://k1:9092,k2:9092", Server: "kafka", For: "$URL?prefix=" + grow + "-moved."},
				{Text: "postgres://db/rf", Server: "postgres", For: "$URL"},
			},
			Needs: map[string][]string{"To another log: from a directory to Kafka": {"kafka", "postgres"}},
			Notes: []Note{
				{Of: "ringfence topic plan payments --partitions 24", Before: "ringfence topic create payments --partitions 8"},
				{Of: "ringfence topic describe payments", Want: []string{"^ +0 +8 .* sealed", "^ +1 +24 .* producing"}},
				{Of: "ringfence topic plan payments --partitions 10 --shards 2,10", Before: "export RINGFENCE_DATA=two && ringfence topic create payments --partitions 2"},
				{
					Of: "ringfence topic mirror $FROM $TO payments --to-registry $REG",
					Before: `ringfence topic create payments --log $FROM --registry $FROM
						seq 1000 | ringfence produce payments --key k --log $FROM --registry $FROM
						ringfence consume payments --group billing --max 400 --print none --log $FROM --registry $FROM`,
					Until: []string{"1,000 records copied, 0 behind"},
				},
				{
					Of:   "ringfence topic mirror $FROM $TO payments --to-registry $REG --cut-over",
					Want: []string{"was cut over: .* the progress of 1 group carried over"},
				},
				{Of: "ringfence consume payments --group billing", Until: []string{`"value":"1000"`}},
				{
					Of:     `ringfence: line 38100 was not stored (38,099 lines before it stored): sealed: topic "payments" was moved to …: conflict`,
					Before: `seq 38200 | sed s/^/k:/ >input; ringfence produce payments --file input --log $FROM --registry $FROM; test $? = 4`,
				},
				{Of: "tail -n +38100 input | ringfence produce payments --key-sep :", Want: []string{"stored 101 records"}},
				{
					Of: `ringfence: topic "payments" was moved to another log: its storage topic is "payments..0.k3m9q2xt..new" now, which this log does not have; use the URL of the log that it was moved to (--log, RINGFENCE_LOG): conflict`,
					Before: `unset RINGFENCE_NAMESPACE; ringfence topic create payments --life k3m9q2xt --log file:a --registry file:r
						ringfence topic mirror file:a file:b payments --registry file:r --to-registry file:r --cut-over
						ringfence consume payments --group billing --log file:a --registry file:r; test $? = 4`,
				},
			},
		},
		{
			Page: "docs/guide/kafka.md",
			Substitutes: []Substitute{
				{Text: "kafka://h1:9092,h2:9092", Server: "kafka", For: "$URL"},
				{Text: "prod.", For: kafka + "-prod."},
				{Text: "topic create payments --partitions 8", For: "topic create payments --partitions 8 --life k3m9q2xt"},
				{Text: "h1:9092", Server: "kafka", For: "$HOST"},
			},
			Needs: map[string][]string{"Records in Kafka": {"kafka"}},
			Notes: []Note{
				{
					Of:    "ringfence topic create payments --partitions 8",
					After: "echo 'acct-7:credit 3' | ringfence produce payments --key-sep : --partition 3 --header source=web",
				},
				{Of: "kafka://[user:password@]host:port[,host:port…][?parameter=value&…]", Skip: "the parts of a URL"},
				{
					Of:    `kcat -b h1:9092 -C -t prod.payments..0.k3m9q2xt -f '%p %o %k %s %h\n'`,
					Until: []string{`\[3\] at offset 1$`},
					Want:  []string{"^3 0 acct-7 credit 3 source=web$"},
				},
				{
					Of:    "echo 'acct-42:debit' | kcat -b h1:9092 -P -t prod.payments..0.k3m9q2xt -K: -p 3",
					After: "ringfence consume payments --group g --max 2 | grep debit && ringfence topic delete payments --force",
				},
			},
		},
		{
			Page: "docs/guide/ring.md",
			Notes: []Note{
				{
					Of:    "ringfence ring join webhooks",
					Stdin: "user-123\n/status\n/refresh\n", Until: []string{"user-123 → mine", "^ring +webhooks", "this one"},
				},
				{Of: `printf 'user-1\nuser-2\n' | ringfence ring join webhooks --format json`, Want: []string{`"key":"user-1".*"mine":true`}},
				{Of: "ringfence ring delete webhooks", After: "! ringfence ring status webhooks"},
			},
		},
		{
			Page:        "docs/guide/operations.md",
			Substitutes: []Substitute{{Text: "4711", For: "$PID"}},
			Notes: []Note{
				{
					Of: `time=… level=WARN msg="a process does not let go of the write lock, …" topic=payments..0.k3m9q2xt pid=4711 for=1s`,
					Before: `ringfence topic create payments --partitions 1 --life k3m9q2xt
						echo first | ringfence produce payments
						ringfence consume payments --group reads > seen & READER=$!
						until grep -q first seen; do sleep 0.1; done
						LOCK="$(find ringfence-data -name write.lock)"
						flock -o "$LOCK" sleep 1000 & PID=$!
						while flock -n "$LOCK" true; do sleep 0.1; done
						echo waits | ringfence produce payments --timeout 2s
						code=$?; kill $READER; wait $READER; test $code = 124`,
				},
				{
					Of: `time=… level=ERROR msg="the registry is gone" error="the registry in …/registry was removed or replaced while this process had it open (…); nothing was written to what is there now; close this registry and open it again, or restart the process: closed"`,
					Before: `ringfence topic create gone --data gone
						ringfence consume gone --group g --data gone --member m & CONSUMER=$!
						until ringfence group describe g --data gone --format json | grep -q '"id": "m"'; do sleep 0.1; done
						rm -r gone && mkdir -p gone/registry && ! wait $CONSUMER`,
				},
			},
		},
		stores(), security(),
	}
}

// deliver has members that run until what the page is about has come to pass.
// endpoint takes signed records, but for one.
func endpoint(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Webhook-Signature") == "" || string(body) == "broken" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(body) // who asked has gone
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func deliver(endpoint string) Play {
	const beside = `ringfence subscription run billing --exec ./charge & RUN=$!
		until ringfence subscription dead-letters list billing --format json >list; %s; do sleep 0.1; done; kill $RUN; wait $RUN`
	return Play{
		Page:        "docs/guide/deliver.md",
		Substitutes: []Substitute{{Text: "http://127.0.0.1:8080/in", For: endpoint + "/in"}},
		Notes: []Note{
			{Of: "topic ──► shard ──► handler or endpoint ──► done", Skip: "a picture"},
			{
				Of:    "ringfence serve --allow-net 127.0.0.0/8",
				Until: []string{`was not delivered.* 422 Unprocessable Entity: .*broken`},
			},
			{
				Of:     "ringfence subscription run billing --exec ./charge",
				Before: `printf '#!/bin/sh\n! grep -q broken || test -e mended || exit 65; echo took $RINGFENCE_RECORD_KEY\n' >charge && chmod +x charge`,
				Until:  []string{"took acct-7"}, After: fmt.Sprintf(beside, "test $(grep -c . list) = 2"),
			},
			{Of: "ringfence subscription describe billing", Want: []string{"^parked: 1 record of 1 key, oldest .*; dead letters: 1, oldest .*, 1 record behind$"}},
			{Of: "ringfence subscription dead-letters list billing", Want: []string{"acct-42 +failed", "acct-42 +blocked"}},
			{Of: "ringfence subscription dead-letters list billing --key acct-42 --format json", Want: []string{`"value":"broken".*"reason":"permanent","status":"failed"`}},
			{Of: "ringfence subscription why billing acct-42", Want: []string{"is failed after [12] attempt", "^1 record behind it$"}},
			{
				Of: "ringfence subscription dead-letters redrive billing --key acct-42", Want: []string{"^redrive: 1 record$"},
				Before: "touch mended", After: fmt.Sprintf(beside, "test ! -s list"),
			},
			{Of: "ringfence subscription dead-letters list billing --all", Want: []string{"acct-42 +redriven"}},
			{Of: "ringfence subscription dead-letters discard billing --all", Want: []string{"^discard: 0 records$"}},
			{Of: "ringfence subscription delete billing --force", After: "! ringfence subscription describe billing"},
		},
	}
}

// stores are servers of all kinds; of what no test server does, the address has to be understood.
func stores() Play {
	return Play{
		Page: "docs/guide/stores.md",
		Substitutes: []Substitute{
			{Text: "ringfence … ", For: "ringfence ring list "},
			{Text: "redis://user@host:6379/0?password-file=/etc/ringfence/redis", Server: "redis", For: "$URL/0"},
			{Text: "redis://a:26379?addr=b:26379&addr=c:26379", For: "redis://127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3"},
			{Text: "redis://a:6379?addr=b:6379", For: "redis://127.0.0.1:1?addr=127.0.0.1:2"},
			{Text: "rediss://host:6379", For: "rediss://127.0.0.1:1"},
			{Text: "&password-file=/etc/ringfence/postgres", For: ""},
			{Text: "postgres://user@host:5432/database", Server: "postgres", For: "postgres://postgres@$HOST/postgres"},
			{Text: "postgres://user@host/database?", Server: "postgres", For: "$URL&"},
			{Text: "schema=orders", For: "schema=doctest"},
			{Text: "etcd://host:2379/PREFIX", Server: "etcd", For: "$URL/doctest"},
			{Text: "user@a:2379,b:2379,c:2379?password-file=/etc/ringfence/etcd", Server: "etcd", For: "$HOST,$HOST,$HOST"},
			{Text: "mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock", Server: "mariadb", For: "$URL"},
			{Text: "sqlite:///var/lib/ringfence", For: "sqlite:$HOME"},
			{Text: "--for 40s --registry URL", Server: "redis", For: "--for 1s --registry $URL"},
			{Text: "psql -Atc", Server: "postgres", For: "psql '$URL' -Atc"},
			{Text: "redis-cli", Server: "redis", For: "redis-cli -u '$URL'"},
			{Text: "http://host:2379", Server: "etcd", For: "http://$HOST"},
			{Text: "mariadb -Nse", Server: "mariadb", For: "mariadb --protocol tcp -h $NAME -P $PORT -u $USER -p$PASSWORD -Nse"},
		},
		Notes: []Note{
			{Of: "ringfence … --registry 'redis://a:26379?addr=b:26379&addr=c:26379&master=NAME'", Exit: 1, Want: []string{"connection refused"}},
			{Of: "ringfence … --registry 'redis://a:6379?addr=b:6379'", Exit: 1, Want: []string{"connection refused"}},
			{Of: "ringfence … --registry 'rediss://host:6379?ca=/etc/ssl/redis.pem'", Exit: 2, Want: []string{"open /etc/ssl/redis.pem: no such file"}},
			{Of: "ringfence … --registry 'postgres://user@host:5432/database?sslmode=verify-full&password-file=/etc/ringfence/postgres'", Exit: 1, Want: []string{"server refused TLS"}},
			{
				Of:   "ringfence … --registry 'etcds://host:2379?ca=/etc/ssl/etcd.pem&cert=/etc/ssl/me.pem&key=/etc/ssl/me-key.pem'",
				Exit: 2, Want: []string{"open /etc/ssl/etcd.pem: no such file"},
			},
			{Of: "ringfence … --registry 'mysql://user@host:3306/database?password-file=/etc/ringfence/mariadb&tls-ca=/etc/ssl/mariadb.pem'", Exit: 2, Want: []string{"open /etc/ringfence/mariadb: no such file"}},
			{Of: "psql -Atc 'SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()'", Want: []string{`^\d+$`}},
			{Of: "redis-cli info stats | grep total_commands_processed", Want: []string{`:\d+`}},
			{Of: "curl -s http://host:2379/metrics | awk '/^grpc_server_msg_received_total/ { n += $2 } END { print n }'", Want: []string{`^\d+$`}},
			{Of: `mariadb -Nse "SHOW GLOBAL STATUS LIKE 'Questions'"`, Want: []string{`^Questions\s+\d+$`}},
		},
	}
}

// security has the least rights; other tests take them from the page, and use them.
func security() Play {
	return Play{
		Page: "docs/guide/security.md",
		Notes: []Note{
			{Of: `GRANT USAGE ON SCHEMA ringfence TO rf`, Skip: "rights: tests of the registry run with them"},
			{Of: `GRANT CREATE ON DATABASE app TO rf`, Skip: "rights: tests of the registry run with them"},
			{Of: `GRANT SELECT, INSERT, UPDATE, DELETE ON app.* TO rf@'%'`, Skip: "rights: tests of the registry run with them"},
			{Of: `GRANT CREATE ON app.* TO rf@'%'`, Skip: "rights: tests of the registry run with them"},
			{Of: `ACL SETUSER rf ~{ringfence/* &{ringfence/* +del +evalsha +eval +evalsha_ro +eval_ro +exists +hdel +hexists +hget +hincrby +hlen +hmget +hset +hsetnx +info +pexpire +pubsub|shardnumsub +sadd +set +smembers +spublish +srem +ssubscribe +time +zadd +zcard +zrange +zrem +cluster|slots`, Skip: "rights: tests of the registry run with them"},
			{Of: `ACL SETUSER rf +select`, Skip: "rights: tests of the registry run with them"},
			{Of: `etcdctl role add rf`, Skip: "rights: tests of the registry run with them"},
			{Of: `kafka-acls --add --allow-principal User:rf --resource-pattern-type prefixed --topic prod. --operation Create --operation Delete --operation AlterConfigs --operation Read --operation Write`, Skip: "rights: tests of the log in Kafka run with them"},
			{Of: `pulsar-admin tenants update shop --admin-roles rf`, Skip: "rights: a test of pulsarlog has exactly these"},
		},
	}
}
