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

// asleep is for how long the machine has slept since it was started. A pause between
// both readings makes it less.
func asleep() (time.Duration, bool) {
	boot, ok1 := read(clockBootTime)
	monotonic, ok2 := read(clockMonotonic)
	return boot - monotonic, ok1 && ok2
}

func read(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
