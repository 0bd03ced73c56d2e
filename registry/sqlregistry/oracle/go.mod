module github.com/ringfence/ringfence/registry/sqlregistry/oracle

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.9.2
	github.com/ringfence/ringfence v0.0.0-00010101000000-000000000000
	github.com/sijms/go-ora/v2 v2.8.24
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.48.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/ringfence/ringfence => ../../..
