//go:build !linux

package hybrid

import "time"

// asleep is not known here: the wall clock has to do.
func asleep() (time.Duration, bool) { return 0, false }
