//go:build !linux

package netem

import "time"

func precise() {}

func sleep(d time.Duration) { time.Sleep(d) }
