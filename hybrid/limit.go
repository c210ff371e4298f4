package hybrid

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Limit is a token bucket: Rate tokens/s flow in, Burst of them fit.
type Limit = lease.Limit

// Policy says how the bucket is divided among processes; the zero Policy is a
// good one. See lease.Policy for its fields; `go run ./sim` shows what they do.
type Policy = lease.Policy

// PerSecond returns a Limit of n tokens each second, with a Burst of n rounded up.
func PerSecond(n float64) Limit { return lease.Per(n, time.Second) }

// PerMinute returns a Limit of n tokens each minute, with a Burst of n rounded up.
func PerMinute(n float64) Limit { return lease.Per(n, time.Minute) }

// PerHour returns a Limit of n tokens each hour, with a Burst of n rounded up.
func PerHour(n float64) Limit { return lease.Per(n, time.Hour) }

// Per returns a Limit of n tokens each d, with a Burst of n rounded up.
func Per(n float64, d time.Duration) Limit { return lease.Per(n, d) }
