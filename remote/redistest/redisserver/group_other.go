//go:build !unix

package redisserver

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
