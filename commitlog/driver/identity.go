package driver

import "context"

// Identifier is an optional interface of a Log that tells apart topics which had one name one after the
// other. Its topics are Identified.
type Identifier interface {
	// TopicID is the identity of the topic that has the name now; "": this one has none. fault.NotFound
	// when there is no topic.
	TopicID(ctx context.Context, name string) (string, error)
}

// Identified is what a Topic may also be, see Identifier.
type Identified interface {
	// ID is the identity of the topic that this is a handle of; no other topic of the log ever gets it.
	ID() string
}
