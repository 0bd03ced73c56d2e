// Package archtest holds the tests that keep the structure of the repository: which package may
// import which, how long a file may grow, what the core may depend on, and a few things that
// nobody should write here. A rule that has to give way is changed in this package, in the open,
// with its reason beside it.
package archtest
