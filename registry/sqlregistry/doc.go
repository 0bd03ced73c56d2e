// Package sqlregistry is a registry in the tables of a MariaDB or MySQL database, or in a SQLite file.
//
// On MariaDB each process holds a named lock of the server (GET_LOCK) on a connection of its own. Two
// neighbours wait for that lock, and so notice the death of the process. A process that waits for changes
// sleeps in a statement, which the writer of a change interrupts.
//
// On SQLite, which serves the processes of one host, the kernel does both, as in the file registry: the end
// of a FIFO signals a death, and inotify a change.
//
// Below that, sessions of frozen or isolated processes end by their TTL, by a clock that all processes share.
package sqlregistry
