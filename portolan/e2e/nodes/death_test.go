package nodes

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/endpointctl"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

var measure = flag.Bool("measure", false, "measure node deaths, several times")

// deathBound is how long after its death a node may get packets: the grace, an interval of
// heartbeats, and the time for controller, registry and agent.
const deathBound = 15 * time.Second

// TestADeadNodeGetsNoPackets switches off a machine while another one opens connections to it
// through a cluster IP. All daemons run with their defaults. The test prints the time from the
// death to the last packet.
func TestADeadNodeGetsNoPackets(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("allowed: namespaces need root")
	}
	if err := nftables.Probe(topology.New(t, "probe").Path); err != nil {
		t.Skip("allowed: " + err.Error())
	}
	rounds := 1
	if *measure {
		rounds = 5
	}
	var times []time.Duration
	for round := range rounds {
		t.Run(fmt.Sprint("round ", round+1), func(t *testing.T) { times = append(times, death(t)) })
	}
	slices.Sort(times)
	if len(times) < rounds {
		return
	}
	t.Logf("node_death_to_last_packet_seconds: median %.1f, longest %.1f of %d", times[rounds/2].Seconds(), times[rounds-1].Seconds(), rounds)
	if longest := times[rounds-1]; longest > deathBound {
		t.Errorf("a dead node got packets for %s", longest)
	}
}

// death switches off one of three nodes, and returns how long another one sent packets to its pod.
func death(t *testing.T) time.Duration {
	c := control(t, virtual)
	var ec endpointctl.Config
	config.Defaults(&ec)
	ec.Common, ec.Registry = c.common("endpointctl"), "registry"
	run(c, "endpointctl", ec, endpointctl.New)
	nodes := c.machines("n1", "n2", "n3")
	vip := netip.AddrPortFrom(netip.MustParseAddr("10.96.0.10"), 80)
	c.apply(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: %s
  selector: {app: web}
  ports: [{port: %d, targetPort: 8080}]
`, vip.Addr(), vip.Port()) + nodes["n2"].podManifest() + nodes["n3"].podManifest())

	n1, n2 := nodes["n1"], nodes["n2"]
	c.runs(nodes["n2"])
	c.runs(nodes["n3"])
	clients := n1.clients(t, vip)
	kittest.Eventually(t, "both pods to answer", func() error { return clients.answered("n2", "n3") })
	packets := n1.sniff(t, "router", n2.pod.Addr())

	died := time.Now()
	n2.Down(t, "router")
	n2.kill()
	c.expect(0, []string{"get", "node", "n2"}, "Unknown")
	kittest.Eventually(t, "the last packet", func() error {
		if quiet := time.Since(packets.last()); quiet < 3*time.Second {
			return fmt.Errorf("the last one was %s ago", quiet)
		}
		return nil
	})
	if err := clients.answered("n3"); err != nil {
		t.Error(err)
	}
	return packets.last().Sub(died)
}

// clients are clients of a virtual IP that open new connections all the time.
type clients struct {
	mu      sync.Mutex
	answers map[string]int
}

func (m *machine) clients(t *testing.T, vip netip.AddrPort) *clients {
	cs := &clients{answers: map[string]int{}}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			ticker := time.NewTicker(50 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
					cs.note(m.ask(vip))
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); running.Wait() })
	return cs
}

// ask returns the name of the pod that answers at an address, or "" if none does.
func (m *machine) ask(at netip.AddrPort) string {
	var answer []byte
	err := m.Do(func() error {
		conn, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // reading fails then
		answer, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		return ""
	}
	return string(answer)
}

func (c *clients) note(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[answer]++
}

// answered returns an error unless all these pods have answered since the last call.
func (c *clients) answered(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.answers
	c.answers = map[string]int{}
	for _, name := range names {
		if got[name] == 0 {
			return fmt.Errorf("answers %v, none of %s", got, name)
		}
	}
	return nil
}

// sniffer records the SYNs that a device sends to an address, because a new connection starts with
// one. Other packets belong to older connections. These cannot be moved, and their sender
// retransmits for minutes.
type sniffer struct {
	mu sync.Mutex
	at time.Time
}

func (s *sniffer) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (m *machine) sniff(t *testing.T, device string, to netip.Addr) *sniffer {
	t.Helper()
	var fd int
	err := m.Do(func() error {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network byte order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		timeout := unix.Timeval{Usec: 100_000}
		return errors.Join(
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &sniffer{at: time.Now()}
	stop, want := make(chan struct{}), to.As4()
	var running sync.WaitGroup
	running.Go(func() {
		defer unix.Close(fd)
		buf := make([]byte, 2048)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				continue
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING && opens(buf[:n], want) {
				s.mu.Lock()
				s.at = time.Now()
				s.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait() })
	return s
}

// opens reports whether an IPv4 packet is the first one of a TCP connection to an address.
func opens(packet []byte, to [4]byte) bool {
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_TCP || [4]byte(packet[16:20]) != to {
		return false
	}
	const flags, syn, ack = 13, 0x02, 0x10
	tcp := packet[int(packet[0]&0x0f)*4:]
	return len(tcp) > flags && tcp[flags]&(syn|ack) == syn
}
