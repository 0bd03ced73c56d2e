package filelog

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/segment"
)

// damageNote is one line of a topic's damage file. Damaged bytes stay where they are.
type damageNote struct {
	Time    time.Time `json:"time"`
	Segment uint64    `json:"segment"`
	From    int64     `json:"from"`
	To      int64     `json:"to"`
	Detail  string    `json:"detail"`
}

// damageLog remembers what was reported, so that a reader that tries again does not fill the disk.
type damageLog struct {
	mu   sync.Mutex
	seen map[damageKey]bool
}

type damageKey struct {
	segment uint64
	from    int64
}

const maxDamageNotes = 1000

// behind is the first place of damage at or behind a byte of a segment that a walk met here.
func (d *damageLog) behind(number uint64, off int64) (at int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.seen {
		if key.segment == number && key.from >= off && (!ok || key.from < at) {
			at, ok = key.from, true
		}
	}
	return at, ok
}

func (d *damageLog) first(key damageKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[key] || len(d.seen) >= maxDamageNotes {
		return false
	}
	if d.seen == nil {
		d.seen = map[damageKey]bool{}
	}
	d.seen[key] = true
	return true
}

// reportDamage says it loudly in the log and notes it in the topic's damage file.
func (s *store) reportDamage(n uint64, bad *segment.Damage) {
	if !s.damage.first(damageKey{n, bad.From}) {
		return
	}
	file := s.fs.Path(segmentName(n))
	s.log.Error("damaged data; it is kept for inspection", "file", file, "from", bad.From, "to", bad.To, "detail", bad.Detail)
	line, err := json.Marshal(damageNote{Time: time.Now().UTC(), Segment: n, From: bad.From, To: bad.To, Detail: bad.Detail})
	if err == nil {
		err = s.appendLine("damage", append(line, '\n'))
	}
	if err != nil {
		s.log.Warn("the damage could not be noted", "error", err)
	}
}

func (s *store) appendLine(name string, line []byte) error {
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = lockUntil(s.over, f, func() {}); err == nil {
		var size int64
		if size, err = f.Size(); err == nil {
			_, err = f.WriteAt(line, size)
		}
	}
	return errors.Join(err, f.Close())
}
