// Package integration holds the servers that tests need and that come as Go modules. It is a
// module of its own so that a program that uses Ringfence does not depend on servers.
package integration
