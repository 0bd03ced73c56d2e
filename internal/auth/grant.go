package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// Principal is what a request comes from.
type Principal struct {
	ID     string // of its token; "": the local user
	Name   string // for people; tokens may share one
	Grants []api.Grant
}

// Local is the user whose directory it is, which could as well read the files.
func Local() *Principal {
	return &Principal{Name: "local", Grants: []api.Grant{{Role: api.RoleOwner, Namespace: "*"}}}
}

// May says whether the principal may do something with objects of a namespace: all those named. Of a request that names no
// object, such as a list, the grants for some objects are enough, and what Sees says is shown.
func (p *Principal) May(need api.Permission, namespace string, objects ...string) bool {
	if need == api.Authenticated {
		return true
	}
	if len(objects) == 0 {
		return slices.ContainsFunc(p.Grants, func(g api.Grant) bool { return g.Role.May(need) && matches(g.Namespace, namespace) })
	}
	return !slices.ContainsFunc(objects, func(object string) bool { return !p.Sees(need, namespace, object) })
}

// Sees says whether a permission reaches one object.
func (p *Principal) Sees(need api.Permission, namespace, object string) bool {
	return slices.ContainsFunc(p.Grants, func(g api.Grant) bool {
		return g.Role.May(need) && matches(g.Namespace, namespace) && (g.Objects == "" || matches(g.Objects, object))
	})
}

func matches(pattern, name string) bool {
	start, open := strings.CutSuffix(pattern, "*")
	return name == start || open && strings.HasPrefix(name, start)
}

// checkGrants reports every fault of grants.
func checkGrants(grants []api.Grant) error {
	var errs []error
	if len(grants) == 0 {
		errs = append(errs, fmt.Errorf("grants: found none; expected a role and a namespace at least: %w", fault.Invalid))
	}
	for i, g := range grants {
		if !slices.Contains(api.Roles(), g.Role) {
			errs = append(errs, fmt.Errorf("grants[%d].role %.40q: expected one of %v: %w", i, g.Role, api.Roles(), fault.Invalid))
		}
		if g.Namespace == "" {
			errs = append(errs, fmt.Errorf("grants[%d].namespace: expected a name, the beginning of names and a star, or %q for the empty one: %w", i, api.DefaultNamespace, fault.Invalid))
		}
		for _, pattern := range []string{g.Namespace, g.Objects} {
			if strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
				errs = append(errs, fmt.Errorf("grants[%d]: pattern %.60q: expected a star at its end only: %w", i, pattern, fault.Invalid))
			}
		}
		if g.Role == api.RoleOwner && (g.Namespace != "*" || g.Objects != "") {
			errs = append(errs, fmt.Errorf("grants[%d]: an owner has all namespaces; expected namespace * and no objects: %w", i, fault.Invalid))
		}
	}
	return errors.Join(errs...)
}
