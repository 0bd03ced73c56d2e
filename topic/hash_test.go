package topic_test

import (
	"testing"

	"github.com/ringfence/ringfence/topic"
)

// Published vectors: of xxHash, of Kafka's own tests of its murmur2 (without the sign bit), and of
// the FNV page. Where stored records lie follows from them: they may never change.
func TestHashesGiveThePublishedNumbers(t *testing.T) {
	t.Parallel()
	kafka := func(signed int32) uint64 { return uint64(uint32(signed) & 0x7fffffff) }
	for _, c := range []struct {
		hash topic.Hash
		key  string
		want uint64
	}{
		{topic.XXHash64, "", 0xef46db3751d8e999},
		{topic.XXHash64, "a", 0xd24ec4f1a98c6e5b},
		{topic.XXHash64, "abc", 0x44bc2cf5ad770999},
		{topic.XXHash64, "Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1},
		{topic.Murmur2, "21", kafka(-973932308)},
		{topic.Murmur2, "foobar", kafka(-790332482)},
		{topic.Murmur2, "a-little-bit-long-string", kafka(-985981536)},
		{topic.Murmur2, "a-little-bit-longer-string", kafka(-1486304829)},
		{topic.Murmur2, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", kafka(-58897971)},
		{topic.Murmur2, "abc", kafka(479470107)},
		{topic.FNV1a, "", 0xcbf29ce484222325},
		{topic.FNV1a, "a", 0xaf63dc4c8601ec8c},
		{topic.FNV1a, "foobar", 0x85944171f73967e8},
	} {
		if got := c.hash.Sum([]byte(c.key)); got != c.want {
			t.Errorf("%s of %q is %d; expected %d", c.hash, c.key, got, c.want)
		}
	}
}
