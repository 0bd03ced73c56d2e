package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/registry/driver"
)

// sighting is one session as the database has it.
type sighting struct {
	id, process string
	ttl, left   time.Duration
}

func (x sighting) expired() bool { return x.left <= 0 }

// named is the condition that a session and its process have names such as ours.
func (s *Store) named() string {
	if s.d.Named == "" {
		return "1 = 1"
	}
	return s.d.Named
}

// sound is 1 for a session that one of ours may have written, and 0 for what somebody else did: with
// it nothing is counted, for it would end late or never, or make all of a reading fail.
func (s *Store) sound() string {
	most := driver.MaxSessionTTL.Microseconds()
	return fmt.Sprintf("CASE WHEN %s AND ttl BETWEEN 0 AND %d AND expires BETWEEN 0 AND %s + %d THEN 1 ELSE 0 END", s.named(), most, s.d.Now(), most)
}

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// sessions are those that are sound, and how many there are besides. Of a crowd they are those
// that run out first, as many as limits.SQLSessions: whoever may end is among them.
func (s *Store) sessions(ctx context.Context) (all []sighting, odd int, err error) {
	err = each(ctx, s.cfg.Reads, func(scan func(...any) error) error {
		var id, process sql.NullString
		var ttl, left, rank int64
		if err := scan(&id, &process, &ttl, &left, &rank); err != nil {
			return err
		}
		if !id.Valid {
			odd = int(ttl)
			return nil
		}
		if len(all) == limits.SQLSessions {
			return errEnough
		}
		all = append(all, sighting{id.String, process.String, time.Duration(ttl) * time.Microsecond, time.Duration(left) * time.Microsecond})
		return nil
	}, "SELECT id, process, ttl, expires - "+s.d.Now()+", 1 FROM ringfence_sessions WHERE "+s.sound()+" = 1"+
		" UNION ALL SELECT NULL, NULL, COUNT(*), 0, 0 FROM ringfence_sessions WHERE "+s.sound()+" = 0 ORDER BY 5, 4")
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, odd, err
}

// crowded says whether a reading may lack sessions, and tells people when that begins. It is called by one
// goroutine.
func (s *Store) crowded(all []sighting) bool {
	is := len(all) == limits.SQLSessions
	if is && !s.crowd {
		s.log.Warn("there are more sessions than are read at once: who opens so many?", "sessions_read", len(all))
	}
	s.crowd = is
	return is
}

// endOdd ends the sessions that are not sound, with their entries, and names the first. It is called
// by one goroutine.
func (s *Store) endOdd(ctx context.Context, n int) {
	if n == 0 {
		s.odd = false
		return
	}
	var first [4]sql.NullString
	err := s.transact(ctx, "end sessions that none of ours opened", func(ctx context.Context, q Querier) (bool, error) {
		n = 0
		// Of each no more than shows what it is: in SQLite it may be megabytes of anything.
		err := each(ctx, q, func(scan func(...any) error) error {
			into := make([]any, len(first))
			for i := range into {
				if into[i] = &first[i]; n > 0 {
					into[i] = new(sql.RawBytes)
				}
			}
			n++
			return scan(into...)
		}, "SELECT SUBSTR(id, 1, 40), SUBSTR(process, 1, 40), SUBSTR(ttl, 1, 40), SUBSTR(expires, 1, 40) FROM ringfence_sessions WHERE "+s.sound()+" = 0 ORDER BY id"+s.d.ForUpdate)
		if err != nil || n == 0 {
			return false, err
		}
		for _, what := range []string{
			"DELETE FROM ringfence_entries WHERE session_id IN (SELECT id FROM ringfence_sessions WHERE " + s.sound() + " = 0)",
			"DELETE FROM ringfence_sessions WHERE " + s.sound() + " = 0",
		} {
			if _, err := q.ExecContext(ctx, what); err != nil {
				return false, err
			}
		}
		return true, s.publish(ctx, q, []string{sessionsKey, ""}) // the empty key: everything
	})
	if err == nil && n == 0 {
		return // others were quicker
	}
	if err != nil && s.odd {
		return
	}
	s.odd = err != nil
	s.log.Warn("sessions that none of ours can have opened, or that are from before a clock was set back, are ended",
		"sessions", n, "first", first[0].String, "process", first[1].String, "ttl", first[2].String, "expires", first[3].String, "error", err)
	if err == nil {
		s.watches.All()
		poke(s.ring)
	}
}
