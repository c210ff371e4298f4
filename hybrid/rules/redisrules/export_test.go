package redisrules

import "time"

// SetPoll sets how often Wait looks without a notice.
func (b *Book) SetPoll(d time.Duration) { b.poll = d }
