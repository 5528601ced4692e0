package listen_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/kit/kittest"
)

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// version2 returns a PROXY header of version 2 with a command, a family, and addresses.
func version2(command, family byte, rest string) string {
	length := binary.BigEndian.AppendUint16(nil, uint16(len(rest)))
	return signature + string([]byte{0x20 | command, family}) + string(length) + rest
}

const (
	v4 = "\xc0\x00\x02\x01\xc6\x33\x64\x01\x9c\x40\x01\xbb" // 192.0.2.1:40000 to 198.51.100.1:443
	v6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x9c\x40\x01\xbb"
)

// TestProxyHeaders checks the client's address for connections that begin with different headers.
func TestProxyHeaders(t *testing.T) {
	const own = "" // the connection's own addresses
	for _, c := range []struct{ name, header, client, local string }{
		{"version 1, IPv4", "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n", "192.0.2.1:40000", "198.51.100.1:443"},
		{"version 1, IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 40000 443\r\n", "[2001:db8::1]:40000", "[2001:db8::2]:443"},
		{"version 1, mapped IPv4", "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.1 40000 443\r\n", "192.0.2.1:40000", "198.51.100.1:443"},
		{"version 1, unknown", "PROXY UNKNOWN\r\n", own, own},
		{"version 1, unknown with addresses", "PROXY UNKNOWN ::1 ::1 1 2\r\n", own, own},
		{"version 2, IPv4", version2(1, 0x11, v4), "192.0.2.1:40000", "198.51.100.1:443"},
		{"version 2, IPv6", version2(1, 0x21, v6), "[2001:db8::1]:40000", "[2001:db8::2]:443"},
		{"version 2, with more fields", version2(1, 0x11, v4+"\x04\x00\x02ab"), "192.0.2.1:40000", "198.51.100.1:443"},
		{"version 2, the largest", version2(1, 0x11, v4+"\x04"+string(binary.BigEndian.AppendUint16(nil, 4081))+strings.Repeat("x", 4081)), "192.0.2.1:40000", "198.51.100.1:443"},
		{"version 2, local", version2(0, 0x00, ""), own, own},
		{"version 2, local with addresses", version2(0, 0x11, v4), own, own},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, listen.Options{}, listen.Settings{ProxyFrom: loopback})
			conn := w.dial(c.header + "GET / HTTP/1.1\r\n")
			client, local := c.client, c.local
			if client == own {
				client, local = conn.LocalAddr().String(), conn.RemoteAddr().String()
			}
			r := bufio.NewReader(conn)
			if got, err := r.ReadString('\n'); got != client+" "+local+"\n" {
				t.Errorf("served as %q (%v), want %s %s", got, err, client, local)
			}
			if got, err := r.ReadString('\n'); got != "GET / HTTP/1.1\r\n" {
				t.Errorf("the data after the header was %q (%v)", got, err)
			}
			if served := <-w.served; served.Client.String() != client || served.Local.String() != local || served.Peer.String() != conn.LocalAddr().String() {
				t.Errorf("%s (peer %s) to %s", served.Client, served.Peer, served.Local)
			}
		})
	}
}

// TestBadProxyHeaders checks that a client in a trusted range is reset unless it sends a header that
// names a client.
func TestBadProxyHeaders(t *testing.T) {
	for _, c := range []struct{ name, header string }{
		{"data", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"},
		{"the end", ""},
		{"version 1, truncated", "PROXY TCP4 192.0.2.1 198"},
		{"version 1, without a port", "PROXY TCP4 192.0.2.1 198.51.100.1 40000\r\n"},
		{"version 1, with a wrong port", "PROXY TCP4 192.0.2.1 198.51.100.1 40000 65536\r\n"},
		{"version 1, with the wrong family", "PROXY TCP4 2001:db8::1 2001:db8::2 40000 443\r\n"},
		{"version 1, with a zone", "PROXY TCP6 fe80::1%lo fe80::1%lo 40000 443\r\n"},
		{"version 1, without CR", "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\n"},
		{"version 1, too long", "PROXY UNKNOWN " + strings.Repeat("x", 200) + "\r\n"},
		{"version 1, glued", "PROXYTCP4 192.0.2.1 198.51.100.1 40000 443\r\n"},
		{"version 2, truncated in the signature", signature[:7]},
		{"version 2, truncated in the addresses", version2(1, 0x11, v4)[:20]},
		{"version 2, shorter than its addresses", version2(1, 0x21, v4)},
		{"version 2, too long", version2(1, 0x11, v4+strings.Repeat("x", 60000))},
		{"version 2, of a datagram", version2(1, 0x12, v4)},
		{"version 2, of a Unix socket", version2(1, 0x31, strings.Repeat("x", 216))},
		{"version 2, unknown command", version2(2, 0x11, v4)},
		{"version 3", strings.Replace(version2(1, 0x11, v4), "\x21\x11", "\x31\x11", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, listen.Options{}, listen.Settings{ProxyFrom: loopback})
			conn, err := w.connect("127.0.0.1", c.header)
			if err == nil {
				conn.(*net.TCPConn).CloseWrite()
				_, err = conn.Read(make([]byte, 100))
			}
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("the client saw %v, want a reset", err)
			}
			w.expectRefused(map[listen.Reason]int{listen.BadHeader: 1})
		})
	}
}

// TestProxyHeaderInParts sends a header byte by byte.
func TestProxyHeaderInParts(t *testing.T) {
	for _, header := range []string{"PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n", version2(1, 0x11, v4)} {
		w := start(t, listen.Options{}, listen.Settings{ProxyFrom: loopback})
		conn := w.dial("")
		for i := range len(header) {
			if _, err := io.WriteString(conn, header[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := bufio.NewReader(conn).ReadString('\n'); got != "192.0.2.1:40000 198.51.100.1:443\n" {
			t.Errorf("served as %q (%v)", got, err)
		}
	}
}

func TestSlowProxyHeader(t *testing.T) {
	for _, sent := range []string{"", "PROXY TCP4 192.0.2.1", signature} {
		w := start(t, listen.Options{HandshakeTimeout: time.Millisecond}, listen.Settings{ProxyFrom: loopback})
		w.expectResetOf("127.0.0.1", sent)
		w.expectRefused(map[listen.Reason]int{listen.BadHeader: 1})
	}
}

// TestUntrustedProxyHeader checks that the header of a client outside of the trusted ranges is data.
func TestUntrustedProxyHeader(t *testing.T) {
	w := start(t, listen.Options{}, listen.Settings{ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	const header = "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n"
	conn := w.dial(header)
	r := bufio.NewReader(conn)
	if got, err := r.ReadString('\n'); got != conn.LocalAddr().String()+" "+conn.RemoteAddr().String()+"\n" {
		t.Errorf("served as %q (%v)", got, err)
	}
	if got, err := r.ReadString('\n'); got != header {
		t.Errorf("the handler read %q (%v), want the header", got, err)
	}
}

// TestSourceRanges checks that source ranges apply to the client that the header names, and to the
// peer if there is no header.
func TestSourceRanges(t *testing.T) {
	s := listen.Settings{
		Restricted: true, Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("127.0.0.3/32")},
		ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	}
	for _, c := range []struct {
		name, from, data string
		admitted         bool
	}{
		{"the header names an admitted client", "127.0.0.2", "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n", true},
		{"the header names another client", "127.0.0.2", "PROXY TCP4 203.0.113.1 198.51.100.1 1 2\r\n", false},
		{"the header names no client", "127.0.0.2", "PROXY UNKNOWN\r\n", true},
		{"an admitted client", "127.0.0.3", "", true},
		{"another client", "127.0.0.1", "", false},
		{"another client that sends a header", "127.0.0.1", "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, listen.Options{}, s)
			if !c.admitted {
				w.expectResetOf(c.from, c.data)
				w.expectRefused(map[listen.Reason]int{listen.NotAdmitted: 1})
				return
			}
			conn := w.dialFrom(c.from, c.data)
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProxyHeaderBeforeTLS checks that a header comes before TLS, and that TLS gets the bytes that
// were read together with the header.
func TestProxyHeaderBeforeTLS(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	w := start(t, listen.Options{}, listen.Settings{ProxyFrom: loopback, TLS: func() *tls.Config { return server }})
	conn := tls.Client(&prefixed{Conn: w.dial(""), prefix: version2(1, 0x11, v4)}, client)
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "192.0.2.1:40000 198.51.100.1:443\n" {
		t.Errorf("served as %q (%v)", got, err)
	}
	if served := <-w.served; served.TLS == nil || !served.TLS.ConnectionState().HandshakeComplete || served.TakeBuffered() != nil {
		t.Error("the connection is not TLS")
	}
}
