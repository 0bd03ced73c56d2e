// Package backup copies a data directory that is in use, and puts the copy back.
//
// A backup shows one moment, as if the power had failed then: see docs/design/backup.md. It is an archive
// (tar, compressed with zstd) or a directory with the same files:
//
//	FORMAT      one line with the number
//	log/…       the files of the log, see commitlog/filelog
//	registry/…  a registry with one snapshot, see registry/fileregistry
//	MANIFEST    last: what the backup holds, and size and checksum of each file that counts
//
// A file that retention dropped while it was copied is in an archive, and not in its manifest. Without a
// manifest, or with a file that is not as the manifest says, nothing is restored.
package backup
