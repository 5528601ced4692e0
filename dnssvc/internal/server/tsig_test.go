package server_test

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/services/kit/kittest"
)

// keyName is the name of a key of these tests, keySecret its secret.
const keyName = "secondary.test."

var keySecret = base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, yes"))

// keyFile writes a file and returns its path.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keyText() string {
	return "key \"" + strings.TrimSuffix(keyName, ".") + "\" {\n\talgorithm hmac-sha256;\n\tsecret \"" + keySecret + "\";\n};\n"
}

// testKeys returns keys read from a file.
func testKeys(t *testing.T) server.Keys {
	t.Helper()
	keys, err := server.ReadKeys(keyFile(t, keyText()))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// withKey allows transfers by key, restricted to networks if there are any.
func withKey(t *testing.T, networks ...string) func(*server.Config) {
	t.Helper()
	keys := testKeys(t)
	return func(c *server.Config) {
		c.Keys, c.Transfer = keys, &server.Transfer{}
		for _, text := range networks {
			c.Transfer.Allow = append(c.Transfer.Allow, netip.MustParsePrefix(text))
		}
	}
}

var secrets = map[string]string{keyName: keySecret}

// TestSignedTransfer copies a zone with a key, and checks that every message is signed and that the
// zone is whole.
func TestSignedTransfer(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), append(world(), largeService(1500)...)...)
	for what, networks := range map[string][]string{"key": nil, "key and address": {"127.0.0.0/8"}} {
		addr, _ := serve(t, table, withKey(t, networks...))
		plain, _ := serve(t, table, allowTransfer)
		want, err := transferZone(t, plain, new(dns.Msg).SetAxfr("cluster.local."))
		if err != nil {
			t.Fatal(err)
		}
		transfer := &dns.Transfer{DialTimeout: dnstest.AnswerTimeout, ReadTimeout: dnstest.AnswerTimeout, TsigSecret: secrets}
		envelopes, err := transfer.In(new(dns.Msg).SetAxfr("cluster.local.").SetTsig(keyName, dns.HmacSHA256, 300, time.Now().Unix()), addr)
		if err != nil {
			t.Fatal(err)
		}
		var got []dns.RR
		messages := 0
		for e := range envelopes { // the library verifies each message with its predecessor
			if e.Error != nil {
				t.Fatalf("%s: message %d: %v", what, messages, e.Error)
			}
			got = append(got, e.RR...)
			messages++
		}
		if messages < 3 || !slices.Equal(dnstest.Text(got), dnstest.Text(want)) {
			t.Errorf("%s: %d records in %d messages, want %d", what, len(got), messages, len(want))
		}
	}
}

// TestTransferNeedsKey checks that a secondary without the key, or from an address that is not
// listed, gets no zone, and that the answer has the error code of RFC 8945.
func TestTransferNeedsKey(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	byKey, s := serve(t, table, withKey(t))
	byBoth, _ := serve(t, table, withKey(t, "127.0.0.0/8"))
	elsewhere, _ := serve(t, table, withKey(t, "192.0.2.0/24"))
	now := time.Now().Unix()
	other := base64.StdEncoding.EncodeToString([]byte("another secret of as many bytes."))
	tests := []struct {
		what, addr, name, algorithm, secret string
		time                                int64
		rcode                               int
		fault                               uint16
		signed                              bool
	}{
		{"unsigned", byKey, "", "", "", now, dns.RcodeRefused, 0, false},
		{"unsigned from a listed address", byBoth, "", "", "", now, dns.RcodeRefused, 0, false},
		{"signed from another address", elsewhere, keyName, dns.HmacSHA256, keySecret, now, dns.RcodeRefused, 0, true},
		{"unknown key", byKey, "other.test.", dns.HmacSHA256, keySecret, now, dns.RcodeNotAuth, dns.RcodeBadKey, false},
		{"another algorithm", byKey, keyName, dns.HmacSHA512, keySecret, now, dns.RcodeNotAuth, dns.RcodeBadKey, false},
		{"another secret", byKey, keyName, dns.HmacSHA256, other, now, dns.RcodeNotAuth, dns.RcodeBadSig, false},
		{"an hour ago", byKey, keyName, dns.HmacSHA256, keySecret, now - 3600, dns.RcodeNotAuth, dns.RcodeBadTime, true},
		{"an hour ahead", byKey, keyName, dns.HmacSHA256, keySecret, now + 3600, dns.RcodeNotAuth, dns.RcodeBadTime, true},
	}
	for _, tt := range tests {
		m := new(dns.Msg).SetAxfr("cluster.local.")
		mac, packet := "", []byte(nil)
		var err error
		if tt.name == "" {
			packet, err = m.Pack()
		} else {
			packet, mac, err = dns.TsigGenerate(m.SetTsig(tt.name, tt.algorithm, 300, tt.time), tt.secret, "", false)
		}
		if err != nil {
			t.Fatal(err)
		}
		reply := exchangePacket(t, tt.addr, packet)
		tsig := reply.IsTsig()
		if reply.Rcode != tt.rcode || len(reply.Answer) > 0 || (tsig != nil) != (tt.name != "") {
			t.Errorf("%s: %s", tt.what, reply)
			continue
		}
		if tsig == nil {
			continue
		}
		if tsig.Error != tt.fault || (tsig.MACSize > 0) != tt.signed {
			t.Errorf("%s: %s", tt.what, tsig)
		}
		if tt.fault == dns.RcodeBadTime && (tsig.TimeSigned != uint64(tt.time) || tsig.OtherLen != 6) {
			t.Errorf("%s: the client's own time and ours are missing: %s", tt.what, tsig)
		}
		if tt.signed && tsig.MAC != macOf(t, reply, tt.secret, mac) {
			t.Errorf("%s: the answer's signature is wrong", tt.what)
		}
	}
	if n := sample(t, s, "portolan_dnssvc_bad_signatures_total"); n != 5 {
		t.Errorf("%v bad signatures counted, want 5", n)
	}
}

// macOf signs an answer anew, for the question with a signature, because the library does not
// verify answers with NOTAUTH.
func macOf(t *testing.T, reply *dns.Msg, secret, question string) string {
	t.Helper()
	m := reply.Copy()
	m.Compress = true
	m.IsTsig().MAC, m.IsTsig().MACSize = "", 0
	_, mac, err := dns.TsigGenerate(m, secret, question, false)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

// exchangePacket sends a packet by TCP and returns the answer.
func exchangePacket(t *testing.T, addr string, packet []byte) *dns.Msg {
	t.Helper()
	conn := &dns.Conn{Conn: dial(t, addr)}
	if _, err := conn.Write(packet); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.ReadMsgHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(raw); err != nil {
		t.Fatal(err)
	}
	return reply
}

// TestMisplacedSignature checks that a message with a TSIG record that is not its last or not its
// only one is a malformed question. Such a key may sign something other than it seems to.
func TestMisplacedSignature(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), withKey(t))
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: 1232}}
	for what, change := range map[string]func(m *dns.Msg, tsig dns.RR){
		"before OPT":    func(m *dns.Msg, tsig dns.RR) { m.Extra = []dns.RR{tsig, opt} },
		"twice":         func(m *dns.Msg, tsig dns.RR) { m.Extra = []dns.RR{tsig, tsig} },
		"in the answer": func(m *dns.Msg, tsig dns.RR) { m.Answer, m.Extra = []dns.RR{tsig}, nil },
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAXFR} {
			m := new(dns.Msg).SetQuestion("cluster.local.", qtype).SetTsig(keyName, dns.HmacSHA256, 300, time.Now().Unix())
			change(m, m.Extra[0])
			packet, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if reply := exchangePacket(t, addr, packet); reply.Rcode != dns.RcodeFormatError {
				t.Errorf("%s, %s: %s", what, dns.Type(qtype), reply)
			}
		}
	}
}

// TestShortSignature checks that a signature that is shorter than any hash is answered as a wrong
// one.
func TestShortSignature(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), withKey(t))
	for _, mac := range []string{"", "00"} {
		for _, name := range []string{keyName, "other.test."} {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeAXFR} {
				m := new(dns.Msg).SetQuestion("cluster.local.", qtype).SetTsig(name, dns.HmacSHA256, 300, time.Now().Unix())
				m.IsTsig().MAC, m.IsTsig().MACSize = mac, uint16(len(mac)/2)
				packet, err := m.Pack()
				if err != nil {
					t.Fatal(err)
				}
				want := uint16(dns.RcodeBadSig)
				if name != keyName {
					want = dns.RcodeBadKey
				}
				reply := exchangePacket(t, addr, packet)
				if tsig := reply.IsTsig(); reply.Rcode != dns.RcodeNotAuth || tsig == nil || tsig.Error != want {
					t.Errorf("%q of %s, %s: %s", mac, name, dns.Type(qtype), reply)
				}
			}
		}
	}
}

// TestSignedQuestions checks that an ordinary question that is signed, such as the question for the
// SOA record with which secondaries begin, gets a signed answer within the bounds of its transport.
// If an answer fits only without the signature, it is truncated.
func TestSignedQuestions(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), append(world(), largeService(70)...)...), withKey(t))
	keyless, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	for _, w := range dnstest.Transports {
		for _, q := range []dns.Question{
			{Name: "cluster.local.", Qtype: dns.TypeSOA}, {Name: "web.default" + loc, Qtype: dns.TypeA},
			{Name: "nosuch.default" + loc, Qtype: dns.TypeA}, {Name: "crowd.default" + loc, Qtype: dns.TypeA},
			{Name: "_peer._tcp.crowd.default" + loc, Qtype: dns.TypeSRV},
		} {
			question := func() *dns.Msg {
				m := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
				if w.Size > 0 {
					m.SetEdns0(w.Size, false)
				}
				return m.SetTsig(keyName, dns.HmacSHA256, 300, time.Now().Unix())
			}
			client := &dns.Client{Net: w.Net, Timeout: dnstest.AnswerTimeout, TsigSecret: secrets, UDPSize: dns.MaxMsgSize}
			reply, _, err := client.Exchange(question(), addr)
			if err != nil || reply.IsTsig() == nil {
				t.Errorf("%s %s: %v, %v", w.Name, q.Name, reply, err)
				continue
			}
			if limit := min(max(int(w.Size), 512), 1232); w.Net == "udp" && packedSize(t, reply) > limit {
				t.Errorf("%s %s: %d bytes, at most %d", w.Name, q.Name, packedSize(t, reply), limit)
			}
			if want := dnstest.Ask(t, w, addr, q.Name, q.Qtype); !reply.Truncated && dnstest.Describe(reply) != dnstest.Describe(want) {
				t.Errorf("%s %s:\nsigned %s\nelse   %s", w.Name, q.Name, dnstest.Describe(reply), dnstest.Describe(want))
			}
			if reply, _, err := client.Exchange(question(), keyless); err != nil || reply.IsTsig() != nil {
				t.Errorf("%s %s: without keys %v, %v", w.Name, q.Name, reply, err)
			}
		}
	}
}

// TestNSDCopiesWithKey runs NSD as a secondary with the key. It copies the zones and is notified of
// a change by a signed NOTIFY, without which it would refresh only hours later.
func TestNSDCopiesWithKey(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	addr, _ := serve(t, table, withKey(t))
	nsd := startNSDWithKey(t, addr, table.Snapshot(), strings.TrimSuffix(keyName, "."))
	n := server.NewNotifier(table.Snapshot, []server.Secondary{{Addr: netip.MustParseAddrPort(nsd), Key: keyName}}, testKeys(t), kittest.Logger(t))
	kittest.Run(t, "notifier", n.Run)
	dnstest.Apply(t, table, 2, dnstest.Service("default/new", "10.96.3.1"))
	n.Changed()
	a := &asker{addr: nsd}
	kittest.Eventually(t, "NSD has the change", func() error {
		if text := a.ask(t, "new.default"+loc, dns.TypeA); !strings.Contains(text, "10.96.3.1") {
			return errors.New(text)
		}
		return nil
	})
}

// TestKeyFiles checks that keys are read as tsig-keygen writes them, and that errors about other
// files explain the fault without showing a secret.
func TestKeyFiles(t *testing.T) {
	second := "# by hand\nkey Other.Test { secret " + keySecret + "; algorithm HMAC-SHA512; };\n"
	keys, err := server.ReadKeys(keyFile(t, keyText()+second))
	if err != nil || len(keys) != 2 || keys[keyName].Algorithm != dns.HmacSHA256 || keys["other.test."].Algorithm != dns.HmacSHA512 {
		t.Errorf("got %v, %v", len(keys), err)
	}
	for text, want := range map[string]string{
		"":                                     "has no key",
		keySecret:                              "want: key NAME",
		"key k { algorithm":                    "want: key NAME",
		"key k {} ;":                           "algorithm: want",
		keyText() + keyText():                  "is there twice",
		"key k { secret " + keySecret + "; };": "algorithm: want hmac-sha256",
		"key k { algorithm hmac-md5; secret " + keySecret + "; };":       "algorithm: want hmac-sha256",
		"key k { algorithm hmac-sha256; secret " + keySecret + "!; };":   "secret: is not base64",
		"key k { algorithm hmac-sha256; secret c2hvcnQ=; };":             "secret: has 5 bytes",
		"key k { algorithm hmac-sha256; };":                              "secret: has 0 bytes",
		"key k { algorithm hmac-sha256; secret " + keySecret + " };":     "want: algorithm NAME",
		"key a..b { algorithm hmac-sha256; secret " + keySecret + "; };": "domain name",
		"key k { algorithm hmac-sha256; Secret " + keySecret + "; };":    "nothing else",
	} {
		_, err := server.ReadKeys(keyFile(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), keySecret) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := server.ReadKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestSecondaryText(t *testing.T) {
	for text, want := range map[string]server.Secondary{
		"192.0.2.1:53":       {Addr: netip.MustParseAddrPort("192.0.2.1:53")},
		"[2001:db8::1]:53#k": {Addr: netip.MustParseAddrPort("[2001:db8::1]:53"), Key: "k."},
		"192.0.2.1":          {}, "192.0.2.1:53#": {}, "ns.example:53": {}, "": {},
	} {
		var s server.Secondary
		err := s.UnmarshalText([]byte(text))
		if s != want || (err == nil) != want.Addr.IsValid() || err == nil && s.String() != text {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}
