package dataplanetest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// Forger is implemented by rigs that can send packets that no socket would send.
type Forger interface {
	// Forge sends an IP packet from a location. Self stands for all backends.
	Forge(from ClientLocation, packet []byte) error
}

// OutsideWindow sends segments of an open TCP connection with sequence numbers outside of its
// window, from the client's side or, if Backend is set, from the backend's. The connection must
// survive. If a plane took such a segment for a packet of an unknown connection, it would answer
// with a reset that both ends accept.
type OutsideWindow struct {
	Client
	Frontend string
	Conn     string
	Backend  bool
}

// segmentsOutside is the number of segments that OutsideWindow sends.
const segmentsOutside = 5

func (a OutsideWindow) run(w *scenarioRun) error {
	conn := w.conns[a.Conn]
	from, local, remote := a.From, net.Conn(conn.Conn), w.frontend(a.Frontend).Addr
	if a.Backend {
		var err error
		if local, err = w.backendSide(conn); err != nil {
			return err
		}
		from, remote = Self, addrPortOf(local.RemoteAddr())
	}
	send, receive, err := sequences(local)
	if err != nil {
		return err
	}
	const beyond = 1 << 29 // larger than any window
	for i := range uint32(segmentsOutside) {
		packet := segment(addrPortOf(local.LocalAddr()), remote, send+beyond+i, receive)
		if err := w.rig.(Forger).Forge(from, packet); err != nil {
			return err
		}
	}
	for range 3 { // a reset may still be in transit
		if err := (Continue{Conn: a.Conn}).run(w); err != nil {
			return err
		}
	}
	return nil
}

// backendSide returns the backend's end of a connection.
func (w *scenarioRun) backendSide(c *client) (net.Conn, error) {
	answer, err := w.exchange(c, "who", patience)
	if err != nil {
		return nil, err
	}
	var number int
	var seen string
	if _, err := fmt.Sscan(answer, &number, &seen); err != nil {
		return nil, fmt.Errorf("strange answer %q", answer)
	}
	b := w.backends[number]
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		if conn.RemoteAddr().String() == seen {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("backend %d has no connection of %s", number, seen)
}

func addrPortOf(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// segment returns an IP packet with a TCP segment of one byte that acknowledges the received data.
func segment(from, to netip.AddrPort, sequence, acknowledged uint32) []byte {
	const ack, window = 0x10, 65535
	tcp := binary.BigEndian.AppendUint16(nil, from.Port())
	tcp = binary.BigEndian.AppendUint16(tcp, to.Port())
	tcp = binary.BigEndian.AppendUint32(tcp, sequence)
	tcp = binary.BigEndian.AppendUint32(tcp, acknowledged)
	tcp = append(tcp, 5<<4, ack)
	tcp = binary.BigEndian.AppendUint16(tcp, window)
	tcp = append(tcp, 0, 0, 0, 0, '\n') // checksum and urgent pointer, then the byte
	source, destination := from.Addr().AsSlice(), to.Addr().AsSlice()
	pseudo := append(append([]byte{}, source...), destination...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(tcp)))
	pseudo = append(pseudo, 0, 0, 0, 6)
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
	return append(header(source, destination, len(tcp)), tcp...)
}

// header returns the IP header of a TCP segment.
func header(source, destination []byte, size int) []byte {
	const lifetime, tcp = 64, 6
	var h []byte
	if len(source) == net.IPv6len {
		h = append(h, 6<<4, 0, 0, 0)
		h = binary.BigEndian.AppendUint16(h, uint16(size))
		h = append(h, tcp, lifetime)
		return append(append(h, source...), destination...)
	}
	h = append(h, 4<<4|5, 0)
	h = binary.BigEndian.AppendUint16(h, uint16(20+size))
	h = append(h, 0, 0, 0, 0, lifetime, tcp, 0, 0)
	h = append(append(h, source...), destination...)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return h
}

// checksum computes the checksum of IP and TCP.
func checksum(b []byte) uint16 {
	var sum uint32
	for i, c := range b {
		sum += uint32(c) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
