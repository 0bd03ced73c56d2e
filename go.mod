module github.com/ringfence/ringfence

go 1.26
