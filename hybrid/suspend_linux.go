package hybrid

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2): one stands still while the machine sleeps.
const (
	clockMonotonic = 1
	clockBootTime  = 7
)

// asleep is for how long the machine has slept since it was started. On a busy machine
// there may be a pause between two readings, which is no sleep: of several attempts the
// one with the shortest pause counts.
func asleep() (total time.Duration, ok bool) {
	const attempts, short = 20, 100 * time.Microsecond
	best := time.Duration(1<<63 - 1)
	for range attempts {
		before, ok1 := read(clockMonotonic)
		boot, ok2 := read(clockBootTime)
		after, _ := read(clockMonotonic)
		if !ok1 || !ok2 {
			return 0, false
		}
		if pause := after - before; pause < best {
			best, total = pause, boot-before
		}
		if best < short {
			break
		}
	}
	return total, true
}

func read(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
