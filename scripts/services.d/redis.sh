# Redis, with its append-only file: what was acknowledged a second ago survives kill.

redis_registry=yes
redis_packages() { echo redis-server; }
redis_has() { command -v redis-server; }

redis_prepare() { echo "requirepass $(secret)" >redis.conf; }

redis_start() {
	run redis-server "$dir/redis.conf" --port "$(port)" --bind 127.0.0.1 --dir "$dir" --save '' --appendonly yes \
		--appendfsync everysec --daemonize no
}

redis_ready() { [ "$(REDISCLI_AUTH=$(secret) redis-cli -p "$(port)" ping)" = PONG ]; }
redis_env() { echo "RINGFENCE_REDIS_URL=redis://default:$(secret)@127.0.0.1:$(port)"; }
