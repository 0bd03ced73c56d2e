package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/push"
	"github.com/ringfence/ringfence/subscription"
)

// endpointLimits are the flags that bound what goes to one endpoint.
type endpointLimits struct{ rates, concurrencies []string }

func (l *endpointLimits) register(fl *pflag.FlagSet) {
	fl.StringSliceVar(&l.rates, "endpoint-rate", nil, "`ORIGIN=N`, as https://api.example.com=100: how many attempts all subscriptions that go there begin in a second, the same for all who deliver")
	fl.StringSliceVar(&l.concurrencies, "endpoint-concurrency", nil, "`ORIGIN=N`: how many attempts all subscriptions that go there have under way at the same time; each process has one at least")
}

func (l *endpointLimits) parse() (map[string]push.Limits, error) {
	all := map[string]push.Limits{}
	var errs []error
	each := func(flag string, values []string, most int, set func(*push.Limits, int) bool) {
		for _, v := range values {
			origin, n, err := endpointLimit(flag, v, most)
			if err == nil {
				limits := all[origin]
				if !set(&limits, n) {
					err = fmt.Errorf("--%s: %s stands there twice: %w", flag, origin, fault.Invalid)
				}
				all[origin] = limits
			}
			errs = append(errs, err)
		}
	}
	each("endpoint-rate", l.rates, subscription.MaxRate, func(to *push.Limits, n int) bool {
		first := to.Rate == 0
		to.Rate = n
		return first
	})
	each("endpoint-concurrency", l.concurrencies, subscription.MaxConcurrency, func(to *push.Limits, n int) bool {
		first := to.Concurrency == 0
		to.Concurrency = n
		return first
	})
	return all, errors.Join(errs...)
}

func endpointLimit(flag, v string, most int) (origin string, n int, err error) {
	i := strings.LastIndex(v, "=")
	if i < 0 {
		return "", 0, fmt.Errorf("--%s %q: expected ORIGIN=N, as https://api.example.com=100: %w", flag, v, fault.Invalid)
	}
	if n, err = strconv.Atoi(v[i+1:]); err != nil || n < 1 || n > most {
		return "", 0, fmt.Errorf("--%s %q: expected a number from 1 to %d after the \"=\": %w", flag, v, most, fault.Invalid)
	}
	if origin, err = push.Origin(v[:i]); err != nil {
		return "", 0, fmt.Errorf("--%s: %w", flag, err)
	}
	return origin, n, nil
}
