// Package doctest runs what the documentation shows. A page is read as its reader types it: every
// command of it, from top to bottom, in one shell and one folder, so that a command finds what
// those above it have made; what a page shows as output has to have been printed by then.
//
// What a page can't say for itself stands in the notes of its test, beside the command's text: what
// its reader has done before, when he presses Ctrl-C, which exit code is meant, and, with the
// reason, what is not run. A line that is neither a command nor printed by one fails the test, and
// so does a note that no line of the page belongs to.
package doctest
