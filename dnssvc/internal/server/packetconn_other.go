//go:build !linux

package server

import (
	"net"
	"net/netip"
)

// singleConn reads and writes one packet at a time, on systems without recvmmsg. The system chooses
// the source address of an answer, so on these systems a server should listen on single addresses
// and not on all of them.
type singleConn struct {
	conn  *net.UDPConn
	in    [maxQuery]byte
	out   []byte
	n     int
	from  netip.AddrPort
	reply []byte
}

func newPacketConn(conn *net.UDPConn, maxReply int) (packetConn, error) {
	return &singleConn{conn: conn, out: make([]byte, maxReply)}, nil
}

func (s *singleConn) receive() (int, error) {
	var err error
	s.reply = nil
	s.n, s.from, err = s.conn.ReadFromUDPAddrPort(s.in[:])
	return 1, err
}

func (s *singleConn) packet(int) []byte         { return s.in[:s.n] }
func (s *singleConn) client(int) netip.AddrPort { return s.from }
func (s *singleConn) replyBuffer(int) []byte    { return s.out }
func (s *singleConn) route(int) route           { return route{client: s.from} }
func (s *singleConn) stage(_ int, reply []byte) { s.reply = reply }

func (s *singleConn) send() error {
	if s.reply == nil {
		return nil
	}
	_, err := s.conn.WriteToUDPAddrPort(s.reply, s.from)
	return err
}
