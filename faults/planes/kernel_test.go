package planes

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// server returns a virtual server with these backends, which may drain for an hour.
func server(address string, protocol plan.Protocol, backends ...string) *plan.VirtualServer {
	v := &plan.VirtualServer{
		Key:        plan.Key{Frontend: plan.Frontend{Addr: netip.MustParseAddrPort(address), Protocol: protocol}},
		Attributes: plan.Attributes{Scheduler: plan.RoundRobin, Drain: time.Hour},
	}
	for _, b := range backends {
		v.Reals = append(v.Reals, plan.RealServer{Addr: netip.MustParseAddrPort(b), Weight: 1})
	}
	return v
}

// newNode returns a namespace with an nftables plane that forwards servers. With counts, servers
// have counters if the kernel supports them.
func newNode(t *testing.T, counts bool, servers ...*plan.VirtualServer) (*topology.Namespace, *kernel.Plane) {
	t.Helper()
	labtest.Need(t)
	if err := nftables.Probe(""); err != nil {
		t.Skipf("allowed: %v", err)
	}
	ns := topology.New(t, "node")
	plane, err := nftables.New(kernel.Options{
		Log: kittest.Logger(t), Namespace: ns.Path, Journal: filepath.Join(t.TempDir(), "journal"),
		Count: counts, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
	})
	if failed := plane.Apply(t.Context(), dataplanetest.Changes(servers...)); len(failed) > 0 {
		t.Fatal(failed)
	}
	return ns, plane
}

// readIn reads the content of a namespace.
func readIn(t *testing.T, ns *topology.Namespace, read func([]Frontend) (Content, error), expected ...Frontend) Content {
	t.Helper()
	var got Content
	err := ns.Do(func() (err error) {
		got, err = read(expected)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func udp(address string) Frontend {
	return Frontend{netip.MustParseAddrPort(address), corev1.Protocol_PROTOCOL_UDP}
}

func TestNftables(t *testing.T) {
	for _, counts := range []bool{false, true} {
		t.Run(fmt.Sprintf("counters %v", counts), func(t *testing.T) { testNftables(t, counts) })
	}
}

func testNftables(t *testing.T, counts bool) {
	draining := server("10.96.0.4:80", plan.TCP, "10.1.0.1:8080")
	ns, plane := newNode(t, counts,
		server("10.96.0.1:80", plan.TCP, "10.1.0.1:8080", "10.1.0.2:8080"), server("10.96.0.1:80", plan.UDP, "10.1.0.1:53"),
		server("10.96.0.2:80", plan.TCP), server("[fd00:96::1]:80", plan.TCP, "[fd00:1::1]:8080"), draining)
	want := Content{
		at("10.96.0.1:80"): {"10.1.0.1:8080", "10.1.0.2:8080"}, udp("10.96.0.1:80"): {"10.1.0.1:53"}, at("10.96.0.2:80"): {},
		at("[fd00:96::1]:80"): {"[fd00:1::1]:8080"}, at("10.96.0.4:80"): {"10.1.0.1:8080"},
	}
	if got := readIn(t, ns, Nftables); !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}

	plane.Apply(t.Context(), dataplanetest.Removal(draining.Frontend))
	delete(want, at("10.96.0.4:80"))
	if got := readIn(t, ns, Nftables); !reflect.DeepEqual(got, want) {
		t.Errorf("with a server that drains, read %v, want %v", got, want)
	}

	// Another program removes a backend.
	element := "{ 10.96.0.1 . udp . 80 . f0c0:0 }"
	err := ns.Do(func() error {
		out, err := exec.Command("nft", "delete element ip "+balancerTable+" slots "+element).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want[udp("10.96.0.1:80")] = []string{}
	if got := readIn(t, ns, Nftables); !reflect.DeepEqual(got, want) {
		t.Errorf("without a backend, read %v, want %v", got, want)
	}
}

// TestLookUp checks the lookup of single servers, which is used if a list from the kernel is
// incomplete.
func TestLookUp(t *testing.T) {
	draining := server("10.96.0.4:80", plan.TCP, "10.1.0.1:8080")
	ns, plane := newNode(t, true,
		server("10.96.0.1:80", plan.TCP, "10.1.0.1:8080", "10.1.0.2:8080"), server("[fd00:96::1]:80", plan.TCP, "[fd00:1::1]:8080"),
		server("10.96.0.2:80", plan.UDP), draining)
	plane.Apply(t.Context(), dataplanetest.Removal(draining.Frontend))
	for f, want := range map[Frontend][]string{
		at("10.96.0.1:80"): {"10.1.0.1:8080", "10.1.0.2:8080"}, at("[fd00:96::1]:80"): {"[fd00:1::1]:8080"},
		udp("10.96.0.2:80"): {}, at("10.96.0.2:80"): nil, at("10.96.0.4:80"): nil,
	} {
		err := ns.Do(func() error {
			s, err := lookUp(f)
			if open := s != nil && s.open; err == nil && (open != (want != nil) || open && !slices.Equal(s.backends(), want)) {
				err = fmt.Errorf("%+v, want %v", s, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestNftablesWithoutTables(t *testing.T) {
	labtest.Need(t)
	if got := readIn(t, topology.New(t, "node"), Nftables); len(got) != 0 {
		t.Errorf("read %v in an empty namespace", got)
	}
}

func TestSockets(t *testing.T) {
	labtest.Need(t)
	ns := topology.New(t, "node")
	want := Content{}
	err := ns.Do(func() error {
		for _, network := range []string{"tcp4", "tcp6"} {
			lis, err := net.Listen(network, map[string]string{"tcp4": "127.0.0.2:0", "tcp6": "[::1]:0"}[network])
			if err != nil {
				return err
			}
			t.Cleanup(func() { lis.Close() })
			address := lis.Addr().(*net.TCPAddr).AddrPort()
			want[at(address.String())] = nil
			conn, err := net.Dial(network, address.String())
			if err != nil {
				return err
			}
			t.Cleanup(func() { conn.Close() })
		}
		open, err := net.ListenPacket("udp4", "127.0.0.3:0")
		if err != nil {
			return err
		}
		t.Cleanup(func() { open.Close() })
		want[udp(open.LocalAddr().String())] = nil
		connected, err := net.Dial("udp4", open.LocalAddr().String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { connected.Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := readIn(t, ns, Sockets); !maps.EqualFunc(got, want, func([]string, []string) bool { return true }) {
		t.Errorf("read %v, want %v", got, want)
	}
}
