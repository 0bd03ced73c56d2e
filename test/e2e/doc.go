// Package e2e tests the front door from outside: several members, processes and stores, as programs use them.
package e2e
