package pulsarlog

import (
	"errors"
	"net/url"
	"sync/atomic"

	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"google.golang.org/protobuf/proto"
)

// The client drops a damaged entry without a word, and a batch that is shorter than it says is a panic in one of
// its goroutines. It has no setting against that, but it logs each command, with the entry behind it, before it
// acts on the command. arrivals replaces an entry there that the client can't read by one that says why. When a
// later client logs no commands, check fails and nothing is read.
type arrivals struct{ seen atomic.Bool }

// Of Pulsar's protocol.
const (
	commandName    = "pulsar.proto.BaseCommand"
	commandType    = 1
	messageCommand = 9
)

// check fails when the client did not show what the broker sent.
func (a *arrivals) check() error {
	if a.seen.Load() {
		return nil
	}
	return errors.New("the client does not log what brokers send before it acts on it; expected github.com/apache/pulsar-client-go as go.mod names it")
}

// frame is what follows a command, in the client's buffer.
type frame interface {
	ReadableSlice() []byte
	Clear()
	Write(b []byte)
}

// look runs before the client acts on a command.
func (a *arrivals) look(command proto.Message, with any) {
	a.seen.Store(true)
	m := command.ProtoReflect()
	f, ok := with.(frame)
	if !ok || m.Get(m.Descriptor().Fields().ByNumber(commandType)).Enum() != messageCommand {
		return
	}
	if put := vet(f.ReadableSlice()); put != nil {
		f.Clear()
		f.Write(put)
	}
}

// overheard is a logger that shows arrivals each command, and logins each address.
type overheard struct {
	plog.Logger

	logins *logins
}

func (o overheard) SubLogger(fields plog.Fields) plog.Logger {
	if to, ok := fields["remote_addr"].(*url.URL); ok && to != nil {
		o.logins.connecting(to.Host)
	}
	return overheard{o.Logger.SubLogger(fields), o.logins}
}

func (o overheard) Debugf(format string, args ...any) {
	if len(args) == 2 {
		if m, ok := args[0].(proto.Message); ok && m.ProtoReflect().Descriptor().FullName() == commandName {
			o.logins.arrivals.look(m, args[1])
			return
		}
	}
	o.Logger.Debugf(format, args...)
}
