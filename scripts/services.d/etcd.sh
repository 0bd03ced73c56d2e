# etcd of one node, built from its Go module: needs nothing but Go. The build is quick when Go's
# cache has it.

etcd_packages() { :; }
etcd_has() { command -v go; }

etcd_prepare() {
	cd "$root/internal/integration"
	go build -trimpath -tags grpcnotrace -o "$dir/etcd" ./cmd/etcd
}

etcd_start() {
	run "$dir/etcd" -dir "$dir/data" -client "127.0.0.1:$(port)" -peer "127.0.0.1:$(port peer)"
}

etcd_ready() { http "$(port)" /health | grep -q '"health":"true"'; }
etcd_env() { echo "RINGFENCE_ETCD_URL=etcd://127.0.0.1:$(port)"; }
