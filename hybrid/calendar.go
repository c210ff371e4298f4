package hybrid

import "time"

// now is the time since 1970, by which the windows of quotas begin and end. The wall clock
// says it once, when the Memory begins, and the monotonic clock from then on: so it never
// steps back, and lags behind when the machine has slept.
func (m *Memory) now() time.Duration {
	return time.Duration(m.start.UnixNano()) + time.Since(m.start)
}
