package ringfence

// builtin are the stores that need no client library.
func builtin(mustExist bool) []Backend {
	return []Backend{{Scheme: "file"}, {Scheme: "mem"}}
}
