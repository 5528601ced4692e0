//go:build !linux

package agent

import "syscall"

// Control prepares a socket that is to listen at an address which the agent has made local. Agents do
// that on Linux only.
func (*Client) Control(string, string, syscall.RawConn) error { return nil }
