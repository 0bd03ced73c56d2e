// Package sqlregistry is a registry in the tables of a MariaDB or MySQL database, or of a SQLite
// file.
//
// On MariaDB every process holds a lock of the server's by name (GET_LOCK) on a connection of its
// own. Two neighbours wait for it, and so hear of the process's death from the server. Processes
// that wait for changes sleep in a statement, which whoever changes something interrupts.
//
// On SQLite, which is for the processes of one host, the kernel does both, as for the file
// registry: the end of a FIFO tells of a death, inotify of a change.
//
// Underneath either, the TTL of sessions by the one clock that all processes share tells of what
// is frozen or cut off.
package sqlregistry
