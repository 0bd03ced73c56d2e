// Package filelog is the embedded commit log: a directory that several processes of one host
// share. It starts no server; the order between processes comes from kernel locks.
//
//	DIR/log/FORMAT                version of the layout; a newer one is refused
//	DIR/log/lock                  kernel lock for making and deleting topics, and the PID of who has it
//	DIR/log/tmp/                  topics on their way in or out: see sweep.go
//	DIR/log/topics/NAME/
//	    topic                     what the topic was made with (JSON, checksummed)
//	    deleted                   the same file, once the topic is deleted: see delete.go
//	    control                   the control page, mapped by every process
//	    alive.lock, open.lock     kernel locks: who has the topic open, who opens it: see open.go
//	    write.lock, sync.lock     kernel locks: who may write, who syncs
//	    meta.lock, prepare.lock   kernel locks: trim and retention, making of segments
//	    0000000000000001.seg      segments, numbered without gaps
//	    0000000000000001.idx      index of a closed segment; can be rebuilt
//	    oldest-0000000000000001   names the oldest segment that is kept: see oldest.go
//	    next.tmp, spare           a segment in preparation, one for reuse
//	    trim                      first offset of each partition, moved by Trim
//	    retention                 the retention of a topic that was altered
//	    hold-*                    what groups still need, see Hold
//	    damage                    what recovery and readers found damaged, one JSON line each
//
// All partitions of a topic share its segments as interleaved frames, so that one write and one
// fdatasync serve whatever waits. Package segment has the byte layout.
//
// Whoever opened a topic has a handle on its directory, and acts on that one: a topic of the same
// name that is made later is another.
//
// # Who does what
//
// Append encodes into the pending batch and returns. One goroutine at a time has the turn to
// commit: the committer of the topic, or a caller who waits for its append while nothing else is
// under way. It takes what is pending, takes the write lock, learns what other processes wrote
// (they are frames like its own), writes behind the control page's written position, moves that
// position, and unlocks.
// Moving written is the one atomic step that makes frames part of the log: what a writer left
// behind it when it died is overwritten by the next. Then whoever gets the sync lock syncs for
// all and moves the synced position; everybody is woken through a futex in the control page.
//
// Readers copy frames out of a shared mapping and verify the copy, so a segment that is recycled
// meanwhile is noticed and never believed. A view per topic follows the visible position and
// knows the frames of the newest segment; older ones have index files.
//
// What a reader may rely on follows from its own level. At level sync it sees only what is on stable
// storage, whoever wrote it. At level os it sees all that is written, also what a process at level
// sync still waits for: if that sync fails, the record has an unknown outcome, and may be cut off after it
// was read, and its offset given to another one. Whoever must not read what may vanish reads at level sync.
//
// When nobody has had the topic open the control page is not believed: recovery walks the last segments, cuts a torn
// tail, and calls what is damaged below a promised position by its name.
//
// # Goroutines
//
// One of each kind for a topic and process, all joined by Close of the last handle: the committer owns the
// pending batch and the writer; maintenance prepares and closes segments, applies retention and does the lazy
// sync; the watcher sleeps on the futex while somebody waits.
//
// # Locks
//
// In this order: the mutex of the append queue; the mutex of the view; the kernel locks open.lock, alive.lock,
// meta.lock, write.lock, sync.lock. write.lock is held across one pwrite, by the committer only, and by a deletion
// across one rename and the sync of its directory; sync.lock across one fdatasync. The leader of a sync may wait for
// write.lock, since no process waits for sync.lock longer than 50 ms with that in hand. seg.syncing is held across
// the fdatasync of its segment: of two at once through one descriptor the kernel tells one of an error. open.lock is
// held across the opening of a topic with its recovery, alive.lock (shared) as long as it is open. The lock of all
// topics (log/lock) is taken while none of these is held, across the making of a topic and the moving away of a
// deleted one, and never while files are removed or a lock of one topic is waited for.
package filelog
