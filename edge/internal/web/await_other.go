//go:build !unix

package web

import (
	"net"
	"syscall"
)

// reader does not exist here. Connections wait with a buffer of one byte.
type reader struct{}

func newReader(*net.TCPConn) *reader { return nil }

func (*reader) await() (*scratch, error) { return nil, net.ErrClosed }

// alive returns true, because there is no check for the end of an idle connection here.
func alive(syscall.RawConn) bool { return true }

// arrived returns false, because there is no such check here.
func arrived(*net.TCPConn) bool { return false }
