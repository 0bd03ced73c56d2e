package cli

import (
	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/document"
	"github.com/ringfence/ringfence/subscription"
)

// subscriptionDocument is a subscription as JSON: as it is stored, with times as all commands write them.
type subscriptionDocument struct {
	*ringfence.SubscriptionInfo
	Sets    []setDocument  `json:"sets"`
	Created string         `json:"created,omitempty"` // none: the definition can't be read
	Paused  *pauseDocument `json:"paused,omitempty"`
}

type setDocument struct {
	subscription.Set
	Since string `json:"since,omitempty"`
}

type pauseDocument struct {
	Since  string `json:"since"`
	Reason string `json:"reason,omitempty"`
}

func documentOf(d *ringfence.SubscriptionInfo) subscriptionDocument {
	v := subscriptionDocument{SubscriptionInfo: d, Created: timeOf(d.Created), Sets: make([]setDocument, len(d.Sets))}
	for i, s := range d.Sets {
		v.Sets[i] = setDocument{s, timeOf(s.Since)}
	}
	if p := d.Paused; p != nil {
		v.Paused = &pauseDocument{document.Time(p.Since), p.Reason}
	}
	return v
}

// timeOf is a time for people; "": there is none.
func timeOf(millis int64) string {
	if millis == 0 {
		return ""
	}
	return document.Time(millis)
}
