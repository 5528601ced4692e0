package web

import "time"

// The limits for reading bytes of a client that is still sending when the edge closes the connection.
const (
	lingerBytes = 256 << 10
	lingerTime  = time.Second
)

// linger closes a connection's direction to the client, and discards bytes that still arrive. Without that the
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
