package benchkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

// Stores says where the records and the coordination of a measurement are. The zero value is a
// temporary directory.
type Stores struct {
	Log       string // URL; "": the temporary directory
	Registry  string // URL; "": the temporary directory
	Namespace string // keeps the measurement apart from whoever else uses the stores
	Backends  []ringfence.Backend
}

// Environment variables by which an agent is told the stores: a URL may hold a password, which
// must not show in the list of processes.
const (
	logVariable       = "RINGFENCE_LOG"
	registryVariable  = "RINGFENCE_REGISTRY"
	namespaceVariable = "RINGFENCE_NAMESPACE"
)

// given says whether stores were named that others may use too.
func (s Stores) given() bool { return s.Log != "" || s.Registry != "" }

// apart gives the measurement a namespace of its own in stores that were named.
func (s *Stores) apart() {
	if s.given() {
		s.Namespace = "bench-" + strings.ToLower(rand.Text()[:8])
	}
}

// open opens the stores, the directory where none were named.
func (s Stores) open(ctx context.Context, dir string, durability ringfence.Durability) (*ringfence.Client, error) {
	return ringfence.Open(ctx, ringfence.Config{
		Dir: dir, Log: s.Log, Registry: s.Registry, Namespace: s.Namespace, Durability: durability, Backends: s.Backends,
	})
}

// environ is the environment of an agent.
func (s Stores) environ() []string {
	return []string{logVariable + "=" + s.Log, registryVariable + "=" + s.Registry, namespaceVariable + "=" + s.Namespace}
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
func (s Stores) about() string {
	var kinds []string
	if scheme, _, ok := strings.Cut(s.Log, ":"); ok {
		kinds = append(kinds, "log "+scheme)
	}
	if scheme, _, ok := strings.Cut(s.Registry, ":"); ok {
		kinds = append(kinds, "registry "+scheme)
	}
	if len(kinds) == 0 {
		return ""
	}
	return ", " + strings.Join(kinds, ", ")
}

// cleaning is how long the sessions of killed members may keep their group from being deleted.
const cleaning = 15 * time.Second

// clean removes what a measurement left in stores that were named.
func (s Stores) clean(ctx context.Context, rf *ringfence.Client) error {
	if !s.given() {
		return nil // the directory goes as a whole
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	subscriptions, err := rf.Subscriptions(ctx)
	for _, d := range subscriptions {
		err = errors.Join(err, rf.DeleteSubscription(ctx, d.Name, &ringfence.DeleteSubscriptionOptions{Force: true}))
	}
	groups, err2 := rf.Groups(ctx)
	if err = errors.Join(err, err2); err != nil {
		return fmt.Errorf("what the measurement left could not be removed (namespace %s): %w", s.Namespace, err)
	}
	for _, g := range groups {
		for {
			if err = rf.DeleteGroup(ctx, g.Name, nil); !errors.Is(err, fault.Conflict) || ctx.Err() != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("group %q of namespace %s could not be removed: %w", g.Name, s.Namespace, err)
		}
	}
	topics, err := rf.Topics(ctx)
	for _, t := range topics {
		err = errors.Join(err, rf.DeleteTopic(ctx, t.Name, nil))
	}
	return err
}
