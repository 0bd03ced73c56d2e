package ringfence

import (
	"context"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// TopicConfig is what a topic is created with. Only Partitions is required.
type TopicConfig struct {
	Partitions     int        // of the first storage topic
	Router         api.Router // default api.RouterModulo
	Hash           api.Hash   // default api.HashXXHash64
	RetentionBytes int64      // of each storage topic; 0 keeps everything
	RetentionAgeMS int64      // 0 keeps everything
	RetentionForce bool       // let retention drop what a group has not processed
	// ID takes up the storage topics of a topic of this ID, which the log still has and the registry lost. "": the topic
	// begins empty, with an ID of its own.
	ID string
}

// EnsureTopic makes a topic unless it exists. ErrExists when the name is taken by a topic with other partitions, router or
// hash. An existing topic keeps its retention; when that is another one, a warning is logged. Admin has the other orders
// about topics.
func (c *Client) EnsureTopic(ctx context.Context, name string, cfg TopicConfig) error {
	return c.admin.CreateTopic(ctx, name, admin.TopicConfig(cfg), nil)
}
