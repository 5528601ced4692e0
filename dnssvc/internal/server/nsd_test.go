package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// nsdHost is the address of NSD. No other server of these tests uses it.
const nsdHost = "127.53.253.1"

// TestNSDAgrees copies the zones into NSD and asks both servers for every name and type. ANY is
// left out because this server answers it with a single record. SRV records of an alias are left
// out because an ExternalName service has no ports.
func TestNSDAgrees(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), append(world(), generated(6)...)...)
	addr, _ := serve(t, table, allowTransfer)
	s := table.Snapshot()
	nsd := startNSD(t, addr, s)
	var names []string
	for i := range s.Zones {
		for n := range s.Nodes(i) {
			names = append(names, zone.Text(n.Name()), "nosuch."+zone.Text(n.Name()))
		}
	}
	slices.Sort(names)
	ours, theirs := &asker{addr: addr}, &asker{addr: nsd}
	differences := 0
	for _, name := range names {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeCNAME, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeMX} {
			got, want := ours.ask(t, name, qtype), theirs.ask(t, name, qtype)
			if got == want || reserved(s, name, got, want) || qtype == dns.TypeSRV && isAlias(s, name) {
				continue
			}
			if differences++; differences < 20 {
				t.Errorf("%s %s:\nwe   %s\nNSD  %s", name, dns.Type(qtype), got, want)
			}
		}
	}
	t.Logf("%d names, %d differences", len(names), differences)
}

// reserved reports whether a name exists only because the specification reserves it (svc, pod,
// namespaces without services). A copied zone lacks such names, because it has only names with
// records.
func reserved(s *zone.Snapshot, name string, got, want string) bool {
	wire, err := zone.ParseName(name)
	if err != nil {
		return false
	}
	n := s.Get([]byte(wire))
	return n != nil && len(n.Sets()) == 0 && strings.HasPrefix(got, "noerror") && strings.HasPrefix(want, "nxdomain")
}

func isAlias(s *zone.Snapshot, name string) bool {
	wire, err := zone.ParseName(name)
	if err != nil {
		return false
	}
	n := s.Get([]byte(wire))
	return n != nil && n.Set(dns.TypeCNAME) != nil
}

// asker asks by TCP on one connection, and opens another if it ends, because NSD closes connections
// when it loads a zone.
type asker struct {
	addr string
	conn *dns.Conn
}

func (a *asker) exchange(t *testing.T, name string, qtype uint16) (*dns.Msg, error) {
	t.Helper()
	if a.conn == nil {
		a.conn = &dns.Conn{Conn: dial(t, a.addr)}
	}
	if err := a.conn.SetDeadline(time.Now().Add(dnstest.AnswerTimeout)); err != nil {
		return nil, err
	}
	if err := a.conn.WriteMsg(new(dns.Msg).SetQuestion(name, qtype)); err != nil {
		return nil, err
	}
	return a.conn.ReadMsg()
}

// ask describes an answer, including its SOA record.
func (a *asker) ask(t *testing.T, name string, qtype uint16) string {
	t.Helper()
	var reply *dns.Msg
	for try := 1; reply == nil; try++ {
		var err error
		if reply, err = a.exchange(t, name, qtype); err != nil {
			if try == 10 {
				t.Fatal(err)
			}
			a.conn.Close()
			a.conn, reply = nil, nil
		}
	}
	text := dnstest.Describe(reply)
	if reply.Authoritative {
		text += "\n  authoritative"
	}
	for _, rr := range reply.Ns {
		if rr.Header().Rrtype == dns.TypeSOA {
			text += "\n  " + strings.Join(dnstest.Text([]dns.RR{rr}), "")
		}
	}
	return strings.ToLower(text)
}

// generated returns n services of all kinds with endpoints, the same ones in each call.
func generated(n int) []object.Object {
	random := rand.New(rand.NewPCG(1, 2))
	var objects []object.Object
	for i := range n {
		path := fmt.Sprintf("gen%d/svc-%d", i%7, i)
		kind := []string{"None", fmt.Sprintf("10.97.%d.%d", i/200, 1+i%200), fmt.Sprintf("2001:db8:97::%x", i+1)}[random.IntN(3)]
		ports := []string{"80:http/tcp", "443:https/tcp", "53:dns/udp"}[:1+random.IntN(3)]
		objects = append(objects, dnstest.Service(path, append([]string{kind}, ports...)...))
		slice := slices.Clone(ports)
		for e := range random.IntN(12) {
			endpoint := fmt.Sprintf("10.64.%d.%d", 200+i%50, 1+e)
			if random.IntN(2) == 0 {
				endpoint += fmt.Sprintf("=host-%d", e)
			}
			if random.IntN(4) == 0 {
				endpoint = "!" + endpoint
			}
			slice = append(slice, endpoint)
		}
		objects = append(objects, dnstest.Slice(path+"/s-"+fmt.Sprint(i), slice...))
	}
	return objects
}

// startNSD runs NSD as a secondary of primary and waits until it has all zones.
func startNSD(t *testing.T, primary string, s *zone.Snapshot) (addr string) {
	t.Helper()
	return startNSDWithKey(t, primary, s, "NOKEY")
}

// startNSDWithKey is startNSD with a key that signs the messages of both servers.
func startNSDWithKey(t *testing.T, primary string, s *zone.Snapshot, key string) (addr string) {
	t.Helper()
	binary := findNSD(t)
	for try := 1; ; try++ {
		addr, stopped := runNSD(t, binary, primary, s, key)
		if hasZones(t, addr, s, stopped) {
			return addr
		}
		if try == 5 {
			t.Fatal("NSD does not stay up")
		}
	}
}

func findNSD(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"nsd", "/usr/sbin/nsd"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	const msg = "no NSD here: install it (Debian: apt-get install nsd)"
	if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// runNSD starts NSD on a port that was free a moment before. If another process takes the port
// first, NSD stops and the next try uses another port.
func runNSD(t *testing.T, binary, primary string, s *zone.Snapshot, key string) (addr string, stopped <-chan struct{}) {
	t.Helper()
	lis, err := net.Listen("tcp", nsdHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	addr = lis.Addr().String()
	lis.Close()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var conf strings.Builder
	fmt.Fprintf(&conf, "server:\n server-count: 1\n ip-address: %s\n port: %s\n username: \"\"\n chroot: \"\"\n zonesdir: %q\n database: \"\"\n", host, port, dir)
	for _, file := range []string{"pidfile", "xfrdfile", "zonelistfile", "cookie-secret-file"} {
		fmt.Fprintf(&conf, " %s: %q\n", file, filepath.Join(dir, file))
	}
	fmt.Fprintf(&conf, " xfrdir: %q\nremote-control:\n control-enable: no\n", dir)
	if key != "NOKEY" {
		fmt.Fprintf(&conf, "key:\n name: %q\n algorithm: hmac-sha256\n secret: %q\n", key, keySecret)
	}
	for _, z := range s.Zones {
		fmt.Fprintf(&conf, "zone:\n name: %q\n request-xfr: AXFR %s %s\n allow-notify: 127.0.0.0/8 %s\n",
			zone.Text(z.Name), strings.Replace(primary, ":", "@", 1), key, key)
	}
	file := filepath.Join(dir, "nsd.conf")
	if err := os.WriteFile(file, []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	kittest.Run(t, "nsd", func(ctx context.Context) error {
		defer close(ended)
		var output bytes.Buffer
		cmd := exec.CommandContext(ctx, binary, "-d", "-c", file)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = dnstest.AnswerTimeout
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			t.Logf("nsd: %v\n%s", err, output.String())
		}
		return nil
	})
	return addr, ended
}

// hasZones waits until NSD has the zones or has stopped.
func hasZones(t *testing.T, addr string, s *zone.Snapshot, stopped <-chan struct{}) bool {
	t.Helper()
	client := &dns.Client{Net: "tcp", Timeout: dnstest.AnswerTimeout}
	gone := false
	kittest.Eventually(t, "NSD has the zones", func() error {
		select {
		case <-stopped:
			gone = true
			return nil
		default:
		}
		for _, z := range s.Zones {
			reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(zone.Text(z.Name), dns.TypeSOA), addr)
			if err != nil {
				return err
			}
			if len(reply.Answer) != 1 {
				return errors.New(zone.Text(z.Name) + " is not there yet: " + dnstest.Describe(reply))
			}
		}
		return nil
	})
	return !gone
}
