package sqlstore

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

// sighting is one session as the database has it.
type sighting struct {
	id, process string
	ttl, left   time.Duration
}

func (x sighting) expired() bool { return x.left <= 0 }

// sessions reads all sessions, those that expire first in front. It ends the ones that expire later than
// any TTL allows, because the clock of the store was set back, and leaves them out.
func (s *Store) sessions(ctx context.Context) (all []sighting, err error) {
	var ahead []string
	err = each(ctx, s.cfg.Reads, func(scan func(...any) error) error {
		var x sighting
		var ttl, left int64
		if err := scan(&x.id, &x.process, &ttl, &left); err != nil {
			return err
		}
		if left > driver.MaxSessionTTL.Microseconds() {
			ahead = append(ahead, x.id)
			return nil
		}
		x.ttl, x.left = time.Duration(ttl)*time.Microsecond, time.Duration(left)*time.Microsecond
		all = append(all, x)
		return nil
	}, "SELECT id, process, ttl, expires - "+s.d.Now()+" FROM ringfence_sessions ORDER BY 4")
	if err == nil && len(ahead) > 0 {
		s.endAhead(ctx, ahead)
	}
	return all, err
}

// endAhead ends sessions from before the clock was set back.
func (s *Store) endAhead(ctx context.Context, ids []string) {
	err := s.endSessions(ctx, ids)
	s.log.Warn("ending sessions that would live longer than any may: the clock of the store was set back", "sessions", len(ids), "first", ids[0], "error", err)
	if err == nil {
		poke(s.ring)
	}
}
