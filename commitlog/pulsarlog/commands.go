package pulsarlog

import "google.golang.org/protobuf/encoding/protowire"

// What commands are called and numbered in Pulsar's protocol, and their fields.
const (
	commandName = "pulsar.proto.BaseCommand"
	commandType = 1

	noCommand            = 0 // of which the client knows nothing: it closes the connection
	connectCommand       = 2
	connectedCommand     = 3
	messageCommand       = 9
	errorCommand         = 14
	closeProducerCommand = 15
	closeConsumerCommand = 16
	pingCommand          = 18
	pongCommand          = 19
	lookupCommand        = 24
	authResponseCommand  = 37

	connectAuthMethod = 2
	connectAuthData   = 3
	connectAuthName   = 5
	connectProxyTo    = 6

	connectedMessageSize = 3

	errorText = 3

	lookupURL      = 1
	lookupURLTLS   = 2
	lookupResponse = 3
	lookupThrough  = 8

	assignedURL    = 3
	assignedURLTLS = 4

	authResponseData = 2
	authName         = 1
	authData         = 2
)

// comes are the commands that brokers send to who does what the log does. That a topic has moved to another
// cluster is none of them: the client would go there past the relay.
var comes = map[protowire.Number]bool{
	connectedCommand: true, 7: true /* receipt */, 8: true /* send error */, messageCommand: true, 13: true, /* success */
	errorCommand: true, closeProducerCommand: true, closeConsumerCommand: true, 17: true, /* producer success */
	pingCommand: true, pongCommand: true, 22: true /* partitions */, lookupCommand: true, 26: true, /* statistics */
	27: true /* end of topic */, 30: true /* last message */, 31: true /* active consumer */, 33: true, /* topics */
	35: true /* schema */, 36: true /* challenge */, 38: true /* ack */, 40: true, /* schema */
}
