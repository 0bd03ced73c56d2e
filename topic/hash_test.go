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
		// Bytes from 0x80 on, also in the last one to three, which a signed byte would spoil. From
		// Kafka's Java client, org.apache.kafka.common.utils.Utils.
		{topic.Murmur2, "é", kafka(186971271)},
		{topic.Murmur2, "Zoë", kafka(-1306457314)},
		{topic.Murmur2, "Łódź", kafka(1661091367)},
		{topic.Murmur2, "東京", kafka(-1368386005)},
		{topic.Murmur2, "ключ", kafka(2122343024)},
		{topic.Murmur2, "naïve", kafka(452640081)},
		{topic.Murmur2, "\x80", kafka(857690492)},
		{topic.Murmur2, "\xff", kafka(-311467685)},
		{topic.Murmur2, "a\xff", kafka(156479523)},
		{topic.Murmur2, "a\xffb", kafka(945009818)},
		{topic.Murmur2, "a\x80\xff", kafka(-1098070369)},
		{topic.Murmur2, "\xff\xfe\xfd", kafka(998637092)},
		{topic.Murmur2, "abcd\xff", kafka(-270385677)},
		{topic.Murmur2, "abcde\xfff", kafka(-2032966051)},
		{topic.Murmur2, "abcdef\xff", kafka(95584909)},
		{topic.FNV1a, "", 0xcbf29ce484222325},
		{topic.FNV1a, "a", 0xaf63dc4c8601ec8c},
		{topic.FNV1a, "foobar", 0x85944171f73967e8},
	} {
		if got := c.hash.Sum([]byte(c.key)); got != c.want {
			t.Errorf("%s of %q is %d; expected %d", c.hash, c.key, got, c.want)
		}
	}
}
