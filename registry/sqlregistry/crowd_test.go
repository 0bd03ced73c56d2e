package sqlregistry

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/testlog"
)

// More sessions than are read at once end none that lives, and hide none that has run out.
func TestACrowdOfSessionsHidesNobody(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, c Config, sessions *sql.DB) {
		var log testlog.Buffer
		named := c
		named.Logger = log.Logger()
		a, b := openStore(t, named), openStore(t, c)
		mine := hold(t, a, "a", 24*time.Hour)
		hold(t, b, "b", 5*time.Second)
		const crowd = limits.SQLSessions + 1000
		ten := "SELECT 0 AS d"
		for d := 1; d < 10; d++ {
			ten += fmt.Sprintf(" UNION ALL SELECT %d", d)
		}
		if _, err := sessions.Exec(fmt.Sprintf("INSERT INTO ringfence_sessions (id, process, ttl, expires)"+
			" SELECT CAST(i AS CHAR), CAST(i AS CHAR), 3600000000, (SELECT MIN(expires) FROM ringfence_sessions) + 3600000000"+
			" FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS i FROM (%[1]s) a, (%[1]s) b, (%[1]s) c, (%[1]s) e, (%[1]s) f) n WHERE i < %[2]d",
			ten, crowd)); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return log.Count("more sessions than are read at once") == 1 })
		begun := time.Now()
		b.Abandon()
		await(t, func() bool { return keys(t, a) == "a" })
		t.Logf("the dead was gone after %s", time.Since(begun))
		select {
		case <-mine.Done():
			t.Error("the session of who lives is taken for ended")
		default:
		}
	})
}
