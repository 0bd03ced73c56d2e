// Package archtest keeps the rules about the structure of the repository that no linter knows: which
// package may import which, which modules the core may pull in, and how tests wait and clean up. The
// other rules stand in .golangci.yml. Change a rule that has to give way here, with its reason.
package archtest
