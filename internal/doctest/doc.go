// Package doctest runs what the documentation shows. A page is run as a reader types it: every command
// from top to bottom, in one folder and with one set of variables. Each command must end with exit
// code 0, and every other line of a block must have been printed by then.
//
// What the page does not say stands in a testscript beside the test, one a page: what the reader has done
// before, when to press Ctrl-C, which server an address stands for, what is not run and why. The
// script's own commands (Commands) name a line of the page by a piece of its text.
package doctest
