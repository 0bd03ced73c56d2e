package pulsarlog

import (
	"errors"
	"sync/atomic"

	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The client believes what brokers send, and an entry is what any producer has made of it: a batch that is
// shorter than it says is a panic in a goroutine of the client's, which ends the process, and it makes room
// for whatever size a message declares. Nothing of that can be set. But before it acts on a command, it gives
// it to a logger, with what follows it: that is where arrivals looks at both, and puts what the client can
// bear in the place of what it can't. Should a later client say nothing there, nothing is read at all.

// arrivals looks at all that brokers send after a login.
type arrivals struct {
	seen   atomic.Bool
	unpack decompressor
}

// check is an error when the client has not shown what has arrived.
func (a *arrivals) check() error {
	if a.seen.Load() {
		return nil
	}
	return errors.New("the client does not show what brokers send before it acts on it")
}

// frame is what follows a command, in the client's buffer.
type frame interface {
	ReadableSlice() []byte
	Clear()
	Write(b []byte)
}

// look is called with each command before the client acts on it.
func (a *arrivals) look(command proto.Message, with any) {
	a.seen.Store(true)
	m := command.ProtoReflect()
	kind := m.Descriptor().Fields().ByNumber(commandType)
	if !a.whole(m, m.Get(kind).Enum(), with) {
		m.Set(kind, protoreflect.ValueOfEnum(noCommand))
	}
}

// whole says whether a command has what the client takes from it unasked; an entry has it afterwards.
func (a *arrivals) whole(m protoreflect.Message, kind protoreflect.EnumNumber, with any) bool {
	if kind == pingCommand || kind == pongCommand {
		return true
	}
	body := m.Descriptor().Fields().ByNumber(protoreflect.FieldNumber(kind)) // each has the number of its type
	if body == nil || body.Message() == nil || !m.Has(body) {
		return false
	}
	switch kind {
	case lookupCommand:
		said := m.Get(body).Message()
		return said.Has(said.Descriptor().Fields().ByNumber(lookupResponse))
	case messageCommand:
		f, ok := with.(frame)
		if ok {
			a.settle(f)
		}
		return ok
	}
	return true
}

// settle puts an entry that the client can bear in the place of one that it can't.
func (a *arrivals) settle(f frame) {
	if put := a.unpack.vet(f.ReadableSlice()); put != nil {
		f.Clear()
		f.Write(put)
	}
}

// overheard is a logger that arrivals learns from what came.
type overheard struct {
	plog.Logger

	logins *logins
}

func (o overheard) SubLogger(fields plog.Fields) plog.Logger {
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
