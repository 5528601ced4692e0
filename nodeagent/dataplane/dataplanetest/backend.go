package dataplanetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// The backends speak a line protocol, with these answers:
//
//	who          the backend's number, and the client's address as the backend sees it
//	echo TEXT    TEXT
//	quit         bye, and the end of the stream
//
// At the end of the client's stream, the backend sends "bye" and the number of lines. A datagram is a line
// without a newline.

// backend is a backend that answers with its number.
type backend struct {
	number int
	addr   netip.AddrPort
	lis    net.Listener
	packet net.PacketConn
	done   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// ListenTCP opens the socket of a backend. It disables multipath TCP, because the kernel cannot
// attach filters to such sockets.
func ListenTCP(at netip.AddrPort) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", at.String())
}

func startBackend(number int, lis net.Listener, packet net.PacketConn) *backend {
	b := &backend{number: number, lis: lis, packet: packet, conns: map[net.Conn]struct{}{}}
	if lis != nil {
		b.addr = lis.Addr().(*net.TCPAddr).AddrPort()
		b.done.Go(b.accept)
	} else {
		b.addr = packet.LocalAddr().(*net.UDPAddr).AddrPort()
		b.done.Go(b.answer)
	}
	b.addr = netip.AddrPortFrom(b.addr.Addr().Unmap(), b.addr.Port())
	return b
}

// stop ends the backend as a crash would: its connections are reset.
func (b *backend) stop() {
	if b.lis != nil {
		b.lis.Close()
	} else {
		b.packet.Close()
	}
	b.mu.Lock()
	for c := range b.conns {
		c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it may be gone
		c.Close()
	}
	b.mu.Unlock()
	b.done.Wait()
}

func (b *backend) accept() {
	for {
		conn, err := b.lis.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns[conn] = struct{}{}
		b.mu.Unlock()
		b.done.Go(func() {
			b.serve(conn)
			b.mu.Lock()
			delete(b.conns, conn)
			b.mu.Unlock()
			conn.Close()
		})
	}
}

func (b *backend) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for lines := 0; ; lines++ {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			fmt.Fprintf(conn, "bye %d\n", lines)
			return
		}
		if err != nil {
			return
		}
		if line == "quit\n" {
			io.WriteString(conn, "bye\n") //nolint:errcheck // the client notices
			return
		}
		if _, err := io.WriteString(conn, b.reply(strings.TrimSuffix(line, "\n"), conn.RemoteAddr())+"\n"); err != nil {
			return
		}
	}
}

func (b *backend) answer() {
	buf := make([]byte, 65535)
	for {
		n, from, err := b.packet.ReadFrom(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier answer
		}
		b.packet.WriteTo([]byte(b.reply(string(buf[:n]), from)), from) //nolint:errcheck // the client may be gone
	}
}

func (b *backend) reply(line string, from net.Addr) string {
	if text, ok := strings.CutPrefix(line, "echo "); ok {
		return text
	}
	return fmt.Sprintf("%d %s", b.number, from)
}
