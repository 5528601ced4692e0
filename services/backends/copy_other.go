//go:build !linux

package backends

import "net"

// copyTCP copies until the end of from.
func copyTCP(to Stream, from *net.TCPConn, d *direction) error { return copyStream(to, from, d) }
