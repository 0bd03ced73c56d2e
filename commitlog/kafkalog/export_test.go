package kafkalog

import "time"

// RetainSoon has retention applied every second.
func (c *Config) RetainSoon() { c.retainEvery = time.Second }
