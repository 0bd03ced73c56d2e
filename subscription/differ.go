package subscription

import "fmt"

// Differences lists the settings in which a stored definition differs from what was asked for, with
// both values. A zero value was not asked for, and is no difference.
func (d *Document) Differences(want Document) (all []string) {
	note := func(asked bool, what string, have, want any) {
		if asked && have != want {
			all = append(all, fmt.Sprintf("%s %v, asked for was %v", what, have, want))
		}
	}
	note(want.From != "", "from", d.From, want.From)
	note(want.Set().Shards != 0, "shards", d.Set().Shards, want.Set().Shards)
	note(want.Filter != "", "filter", d.Filter, want.Filter)
	if want.Limits != nil {
		var have Limits
		if d.Limits != nil {
			have = *d.Limits
		}
		note(want.Limits.Rate != 0, "rate", have.Rate, want.Limits.Rate)
		note(want.Limits.Concurrency != 0, "concurrency", have.Concurrency, want.Limits.Concurrency)
	}
	note(want.DeadLetters != "", "dead letters", d.DeadLetters, want.DeadLetters)
	note(want.Retry.MaxAttempts != 0, "attempts", d.Retry.MaxAttempts, want.Retry.MaxAttempts)
	note(want.Retry.InitialMS != 0, "first pause", ms(d.Retry.InitialMS), ms(want.Retry.InitialMS))
	note(want.Retry.MaxMS != 0, "longest pause", ms(d.Retry.MaxMS), ms(want.Retry.MaxMS))
	note(want.Retry.HoldMS != 0, "hold", ms(max(-1, d.Retry.HoldMS)), ms(max(-1, want.Retry.HoldMS)))
	note(want.Retry.AfterMaxMS != 0, "longest pause that an answer may ask for", ms(d.Retry.AfterMaxMS), ms(want.Retry.AfterMaxMS))
	if want.Endpoint != nil {
		var have Endpoint
		if d.Endpoint != nil {
			have = *d.Endpoint
		}
		if have.URL != want.Endpoint.URL {
			all = append(all, fmt.Sprintf("endpoint %q, asked for was %q", have.Shown().URL, want.Endpoint.Shown().URL))
		}
		note(want.Endpoint.TimeoutMS != 0, "time-out", have.Timeout(), want.Endpoint.Timeout())
		note(want.Endpoint.SecretFile != "", "secret file", have.SecretFile, want.Endpoint.SecretFile)
		note(want.Endpoint.GiveUpFirst, "giving up what is refused first", have.GiveUpFirst, want.Endpoint.GiveUpFirst)
		note(want.Endpoint.CloudEvents, "CloudEvents", have.CloudEvents, want.Endpoint.CloudEvents)
	}
	return all
}
