//go:build !linux

package dataplanetest

import "net"

// retransmits is known on Linux only.
func retransmits(net.Conn) uint32 { return 0 }
