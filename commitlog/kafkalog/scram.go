package kafkalog

import (
	"context"

	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/ringfence/ringfence/internal/storeurl"
)

// bounded is a login by SCRAM that gives up when the server wants too much of it; see storeurl.CheckScram.
type bounded struct{ sasl.Mechanism }

// Authenticate is of sasl.Mechanism.
func (b bounded) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := b.Mechanism.Authenticate(ctx, host)
	return boundedSession{s}, first, err
}

type boundedSession struct{ sasl.Session }

// Challenge is of sasl.Session.
func (s boundedSession) Challenge(message []byte) (done bool, answer []byte, err error) {
	if err := storeurl.CheckScram(message); err != nil {
		return false, nil, err
	}
	return s.Session.Challenge(message)
}
