// Package filelog is the embedded commit log: a directory that several processes of one host
// share. It starts no server; the order between processes comes from kernel locks.
//
//	DIR/log/FORMAT                version of the layout; a newer one is refused
//	DIR/log/lock                  kernel lock for making and deleting topics
//	DIR/log/tmp/                  topics on their way in or out: see sweep.go
//	DIR/log/topics/NAME/
//	    topic                     what the topic was made with (JSON, checksummed)
//	    deleted                   the same file, once the topic is deleted: see delete.go
//	    control                   the control page, mapped by every process
//	    alive.lock, open.lock     kernel locks: the topic is open, is being opened: see open.go
//	    write.lock, sync.lock     kernel locks of the writer and of the syncer
//	    meta.lock, prepare.lock   kernel locks: trim and retention, making of segments
//	    0000000000000001.seg      segments, numbered without gaps
//	    0000000000000001.idx      index of a closed segment; can be rebuilt
//	    oldest-0000000000000001   names the oldest segment that is kept: see oldest.go
//	    next.tmp, spare           a segment in preparation, one for reuse
//	    trim                      first offset of each partition, moved by Trim
//	    retention                 the retention of a topic that was altered
//	    hold-*, room-*            retention holds of groups, and the files of those to come: see hold.go
//	    damage                    what recovery and readers found damaged, one JSON line each
//
// All partitions of a topic share its segments as interleaved frames: one write and one fdatasync serve all
// waiting appends. Package segment has the byte layout.
//
// A handle belongs to the directory that it opened. A topic of the same name that is made later is another
// topic.
//
// # The way of an append
//
// Append encodes into the pending batch and returns. One goroutine at a time commits: the committer of the
// topic, or a caller that waits for its append while nothing else is under way. It takes the pending batch
// and the write lock, reads the frames of other processes, writes behind the control page's written
// position, moves that position, and unlocks.
// Moving written is the one atomic step that makes frames part of the log: the next writer overwrites what a
// dead writer left behind it. The process that gets the sync lock then syncs for all, moves the synced
// position, and wakes the waiters through a futex in the control page.
//
// Readers copy frames out of a shared mapping and verify the copy: a segment that is recycled meanwhile
// fails the check. A view per topic follows the visible position and knows the frames of the newest
// segment; older segments have index files.
//
// A reader's own level decides what it sees. At level sync it sees only what is on stable storage. At level
// os it sees all that is written, also a record that a process at level sync still waits for. If that sync
// fails, recovery may cut the record off and give its offset to another one. A reader that must not see a
// vanishing record reads at level sync.
//
// When no process had the topic open, the control page does not count: recovery walks the last segments, cuts
// a torn tail, and names the damage below a promised position.
//
// # Goroutines
//
// One of each kind for a topic and process, all joined by Close of the last handle: the committer owns the
// pending batch and the writer; maintenance prepares and closes segments, applies retention and does the lazy
// sync; the watcher sleeps on the futex while a caller waits.
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
