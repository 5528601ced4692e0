//go:build !linux

package dataplanetest

import (
	"errors"
	"net"
)

// retransmits works on Linux only.
func retransmits(net.Conn) uint32 { return 0 }

// Silence and dropped work on Linux only.
func Silence(*net.TCPListener) error           { return errors.ErrUnsupported }
func dropped(*net.TCPListener) (uint32, error) { return 0, errors.ErrUnsupported }

// sequences works on Linux only.
func sequences(net.Conn) (send, receive uint32, err error) { return 0, 0, errors.ErrUnsupported }
