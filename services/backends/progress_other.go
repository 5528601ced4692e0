//go:build !linux

package backends

import (
	"net"
	"time"
)

// Progress returns a number that changes if and only if bytes were passed on.
func (c *Connection) Progress() uint64 {
	return uint64(c.Received()) + uint64(c.Sent()) // #nosec G115 -- they are not negative
}

// Progress returns another number each time, because the bytes of a connection are not known here.
func Progress(*net.TCPConn) uint64 { return uint64(time.Now().UnixNano()) } // #nosec G115 -- not negative

// Gone and Left return false, because the states of connections are not known here.

func Gone(*net.TCPConn) bool { return false }

func Left(*net.TCPConn) bool { return false }
