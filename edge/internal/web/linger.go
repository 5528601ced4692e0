package web

import "time"

// Before the edge closes a connection it reads and discards what the client still sends, up to this many
// bytes and for this long.
const (
	lingerBytes = 256 << 10
	lingerTime  = time.Second
)

// linger ends a connection's direction to the client and discards what still comes. Without that the
// kernel would reset a connection with unread bytes, and the client could lose the response.
func linger(conn *clientConn, buf []byte) {
	if conn.CloseWrite() != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(lingerTime)) //nolint:errcheck // then reading fails
	for total := 0; total < lingerBytes; {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		total += n
	}
}
