package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/script"
)

// Stores says where records and coordination of a measurement are. The zero value is a temporary directory.
type Stores struct {
	Log       string // URL; "": the temporary directory
	Registry  string // URL; "": the temporary directory
	Namespace string // keeps the measurement apart from other users of the stores
	Backends  []ringfence.Backend
}

// given says whether stores were named that others may use too.
func (s Stores) given() bool { return s.Log != "" || s.Registry != "" }

// apart gives the measurement a namespace of its own in stores that were named.
func (s *Stores) apart() {
	if s.given() {
		s.Namespace = "bench-" + strings.ToLower(rand.Text()[:8])
	}
}

// open opens the stores until a script ends, the directory where none were named.
func (s Stores) open(ctx context.Context, life *script.Script, dir string, durability ringfence.Durability) *ringfence.Client {
	rf := script.Must(ringfence.Open(ctx, ringfence.Config{
		Dir: dir, Log: s.Log, Registry: s.Registry, Namespace: s.Namespace, Durability: durability, Backends: s.Backends,
	}))
	life.Later(rf.Close)
	return rf
}

// environ tells an agent the stores: a password must not show in the list of processes.
func (s Stores) environ() []string {
	return []string{"RINGFENCE_LOG=" + s.Log, "RINGFENCE_REGISTRY=" + s.Registry, "RINGFENCE_NAMESPACE=" + s.Namespace}
}

// kind names the registry, as promises do.
func (s Stores) kind() string {
	scheme, _, _ := strings.Cut(s.Registry, ":")
	switch scheme {
	case "":
		return "file"
	case "postgresql":
		return "postgres"
	case "mariadb":
		return "mysql"
	case "rediss", "etcds":
		return strings.TrimSuffix(scheme, "s")
	}
	return scheme
}

// about names the stores, for the line that describes a measurement.
func (s Stores) about() (about string) {
	if scheme, _, ok := strings.Cut(s.Log, ":"); ok {
		about += ", log " + scheme
	}
	if scheme, _, ok := strings.Cut(s.Registry, ":"); ok {
		about += ", registry " + scheme
	}
	return about
}

// cleaning is how long the sessions of killed members may keep their group from being deleted.
const cleaning = 15 * time.Second

// clean removes what a measurement left in stores that were named.
func (s Stores) clean(ctx context.Context, rf *ringfence.Client) error {
	if !s.given() {
		return nil // the directory goes as a whole
	}
	ctx = context.WithoutCancel(ctx)
	err := script.Try(func(*script.Script) {
		for _, d := range script.Must(rf.Admin().ListSubscriptions(ctx)) {
			script.Check(rf.Admin().DeleteSubscription(ctx, d.Name, &admin.DeleteSubscriptionOptions{Force: true}))
		}
		for _, g := range script.Must(rf.Admin().ListGroups(ctx)) {
			wait(ctx, cleaning, fmt.Sprintf("the members of group %q to be gone", g.Name), func() bool {
				err := rf.Admin().DeleteGroup(ctx, g.Name, nil)
				if errors.Is(err, fault.Conflict) {
					return false
				}
				script.Check(err)
				return true
			})
		}
		for _, t := range script.Must(rf.Admin().ListTopics(ctx)) {
			script.Check(rf.Admin().DeleteTopic(ctx, t.Name, nil))
		}
	})
	if err != nil {
		return fmt.Errorf("what the measurement left could not be removed (namespace %s): %w", s.Namespace, err)
	}
	return nil
}

// wait looks every few milliseconds until there is what is waited for.
func wait(ctx context.Context, patience time.Duration, what string, look func() bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			script.Check(context.Cause(ctx))
		}
	}
}
