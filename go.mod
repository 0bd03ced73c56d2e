module github.com/ringfence/ringfence

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/rogpeppe/go-internal v1.15.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/sys v0.48.0
	golang.org/x/term v0.46.0
	pgregory.net/rapid v1.2.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
