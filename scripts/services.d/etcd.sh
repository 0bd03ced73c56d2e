# etcd of one node, built from its Go module: needs nothing but Go. It is linked once for all
# servers of this version.

etcd_registry=yes
etcd_packages() { :; }
etcd_has() { command -v go; }

etcd_prepare() {
	local module=$root/internal/integration version
	version=$(cat "$module/go.mod" "$module/go.sum" "$module/cmd/etcd/main.go" | cksum | tr ' ' '-')
	ours_to_write "$cache"
	(
		flock 7
		if [ ! -x "$cache/etcd-$version" ]; then
			cd "$module"
			go build -trimpath -tags grpcnotrace -o "$dir/etcd.new" ./cmd/etcd
			rm -f "$cache"/etcd-*
			mv "$dir/etcd.new" "$cache/etcd-$version"
		fi
		cp "$cache/etcd-$version" "$dir/etcd"
	) 7>"$cache/.etcd.lock"
}

etcd_start() {
	run "$dir/etcd" -dir "$dir/data" -client "127.0.0.1:$(port)" -peer "127.0.0.1:$(port peer)"
}

etcd_ready() { http "$(port)" /health | grep -q '"health":"true"'; }
etcd_env() { echo "RINGFENCE_ETCD_URL=etcd://127.0.0.1:$(port)"; }
