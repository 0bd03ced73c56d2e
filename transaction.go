package ringfence

import (
	"context"
	"fmt"
)

// CommitIn writes the checkpoint of m inside tx, a transaction of the caller's on the database
// that holds the registry: a pgx.Tx for postgres:, a *sql.Tx for mysql: and sqlite:. When tx
// commits, its effects and the checkpoint are stored together, each exactly once; when it does
// not, neither is. Use it as the last statement, because the partition's checkpoint stays locked
// until tx ends, commit, and return nil from the handler; return any error as it is and let tx roll back.
// The consumer must have ConsumeOptions.Transactional. A subscription can't have it: what it parks lies in the
// log, and no transaction of a database covers that.
//
// Errors: ErrFenced when the partition has another owner by now. ErrExists when the record was
// committed before, by a transaction whose answer was lost; the record then counts as done,
// whatever the handler returns. A second call while one message is handled is ErrExists too, but
// then nothing counts as done: it may have met what the first one wrote, which is not committed.
// Return it; the record is handled again, and finds out. ErrInvalid for a wrong tx.
func (m *Message) CommitIn(ctx context.Context, tx any) error {
	lock := m.lock()
	lock.Lock() // the handler may be asking for Later
	a := m.answer
	lock.Unlock()
	if a == nil || a.commit == nil {
		return fmt.Errorf("CommitIn: the message comes from no consumer with ConsumeOptions.Transactional; expected one of Consume with that. In the handler of a subscription, whose parked records no transaction covers, write down which record was done (topic, storage topic, partition and offset tell it) with what it does: %w", ErrInvalid)
	}
	return a.commit.In(ctx, tx)
}
