//go:build !linux

package userspace

import "syscall"

// freeBind does nothing, because only Linux has addresses without a device.
func freeBind(string, string, syscall.RawConn) error { return nil }
