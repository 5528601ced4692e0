//go:build !unix

package userspace

import "time"

// answerOne waits for a datagram, then forwards it. It holds a buffer while it waits, because other
// systems than Unix read into a buffer that they were given before.
func (fl *flow) answerOne(deadline time.Time) error {
	if err := fl.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	n, err := fl.conn.Read(*buf)
	if err != nil {
		return err
	}
	fl.socket.conn.WriteToUDPAddrPort((*buf)[:n], fl.client) //nolint:errcheck // UDP: the client may be gone
	return nil
}
