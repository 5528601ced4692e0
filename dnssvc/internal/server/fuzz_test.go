package server

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/kit/kittest"
)

// FuzzStream sends any bytes over a TCP connection, in two pieces, to a server that transfers its
// zones to holders of a key. The answers are whole messages, no more than the questions, each of
// which is an answer. Records of a transfer come only after a valid signature, which no input has.
func FuzzStream(f *testing.F) {
	frame := func(m *dns.Msg) []byte {
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	question := frame(new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA))
	transfer := frame(new(dns.Msg).SetAxfr("cluster.local."))
	signed := frame(new(dns.Msg).SetAxfr("cluster.local.").SetTsig("secondary.test.", dns.HmacSHA256, 300, 0))
	ixfr := frame(new(dns.Msg).SetIxfr("cluster.local.", 1, "ns.cluster.local.", "root.cluster.local."))
	for _, stream := range [][]byte{question, transfer, signed, ixfr, append(question[:len(question):len(question)], transfer...), {0}, {0, 0}, {0xff, 0xff, 1}, append([]byte{0x20, 0}, make([]byte, 0x2000)...), question[:len(question)-1]} {
		f.Add(stream, 1)
		f.Add(stream, len(stream)-1)
	}
	table := fastWorld(f, zone.PodsDisabled)
	key := Key{Name: "secondary.test.", Algorithm: dns.HmacSHA256, secret: base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, yes"))}
	s := New(Config{Names: table.Snapshot, MaxUDP: 1232, IdleTimeout: 5 * time.Second, Log: kittest.Logger(f), Transfer: &Transfer{}, Keys: Keys{key.Name: key}})
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		answers := sendStream(t, s, stream, cut)
		questions := 0
		for rest := stream; len(rest) >= 2; questions++ {
			rest = rest[min(len(rest), 2+int(binary.BigEndian.Uint16(rest))):]
		}
		for n := 0; len(answers) > 0; n++ {
			if len(answers) < 2 || n == questions {
				t.Fatalf("%x: %x follows answer %d to %d questions", stream, answers, n, questions)
			}
			size := int(binary.BigEndian.Uint16(answers))
			if size > len(answers)-2 {
				t.Fatalf("%x: answer %d is cut off", stream, n)
			}
			m := new(dns.Msg)
			if err := m.Unpack(answers[2 : 2+size]); err != nil || !m.Response {
				t.Fatalf("%x: %x is no answer: %v", stream, answers[2:2+size], err)
			}
			if len(m.Question) == 1 && isTransfer(m.Question[0].Qtype) && len(m.Answer) > 0 {
				t.Fatalf("%x: %d records of a transfer", stream, len(m.Answer))
			}
			answers = answers[2+size:]
		}
	})
}

// sendStream sends a stream in two pieces, ends it, and returns all answers.
func sendStream(t *testing.T, s *Server, stream []byte, cut int) []byte {
	t.Helper()
	client, end := tcpPair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serveConn(t.Context(), end, netip.MustParseAddrPort("10.64.0.9:4000"), byTCP)
	}()
	cut = min(max(cut, 0), len(stream))
	go func() {
		_, _ = client.Write(stream[:cut])
		_, _ = client.Write(stream[cut:])
		_ = client.CloseWrite()
	}()
	var answers bytes.Buffer
	_, _ = io.Copy(&answers, client) // the server may end the connection with a reset
	_ = client.Close()
	<-served
	return answers.Bytes()
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (client *net.TCPConn, server net.Conn) {
	t.Helper()
	listener := kittest.Listen(t)
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	client, _ = conn.(*net.TCPConn)
	return client, server
}

// FuzzKeys parses any file of keys. An accepted key has the name of a domain, a strong algorithm
// and a secret that is long enough, and stays the same when it is written and parsed again.
func FuzzKeys(f *testing.F) {
	secret := base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, yes"))
	for _, text := range []string{
		"key \"secondary.test\" {\n\talgorithm hmac-sha256;\n\tsecret \"" + secret + "\";\n};\n", "key a{algorithm hmac-sha512;secret " + secret + ";};key b{secret " + secret + ";algorithm HMAC-SHA384;};",
		"# nothing\n", "key", "key . { algorithm hmac-sha256; secret \"" + secret + "\"; };", "key a { algorithm hmac-md5; secret x; };", "key a { secret \"AAAA\"; algorithm hmac-sha256; };",
		"key a { algorithm hmac-sha256; secret " + secret + "; } ;", "key \"a b\" { };", "};", "key \"\\000;\" { algorithm hmac-sha256; secret " + secret + "; };",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKeys(text)
		if err != nil {
			return
		}
		for name, key := range keys {
			raw, err := base64.StdEncoding.DecodeString(key.secret)
			if _, ok := dns.IsDomainName(name); !ok || name != KeyName(name) || name != key.Name || err != nil || len(raw) < minSecret {
				t.Fatalf("%q has the key %+v", text, key)
			}
			again, err := parseKeys("key \"" + name + "\" { algorithm \"" + key.Algorithm + "\"; secret \"" + key.secret + "\"; };")
			if err != nil || again[name] != key {
				t.Fatalf("%+v came back as %+v, %v", key, again, err)
			}
		}
	})
}
