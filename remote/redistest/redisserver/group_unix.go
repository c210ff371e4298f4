//go:build unix

package redisserver

import "syscall"

// ownGroup makes a process one to which a terminal sends no signals: this one stops it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
