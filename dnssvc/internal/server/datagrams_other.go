//go:build !linux

package server

import (
	"net"
	"net/netip"
)

// single reads and writes one packet at a time, on systems without recvmmsg. The system chooses the
// source address of an answer, so on these systems a server should listen on single addresses and
// not on all of them.
type single struct {
	conn  *net.UDPConn
	in    [maxQuery]byte
	out   []byte
	n     int
	from  netip.AddrPort
	reply []byte
}

func newDatagrams(conn *net.UDPConn, maxReply int) (datagrams, error) {
	return &single{conn: conn, out: make([]byte, maxReply)}, nil
}

func (s *single) receive() (int, error) {
	var err error
	s.reply = nil
	s.n, s.from, err = s.conn.ReadFromUDPAddrPort(s.in[:])
	return 1, err
}

func (s *single) packet(int) []byte          { return s.in[:s.n] }
func (s *single) client(int) netip.AddrPort  { return s.from }
func (s *single) space(int) []byte           { return s.out }
func (s *single) route(int) route            { return route{client: s.from} }
func (s *single) answer(_ int, reply []byte) { s.reply = reply }

func (s *single) send() error {
	if s.reply == nil {
		return nil
	}
	_, err := s.conn.WriteToUDPAddrPort(s.reply, s.from)
	return err
}
