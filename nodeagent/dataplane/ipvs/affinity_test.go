package ipvs_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// TestKnownClientsKeepTheirTimeOfAffinity checks the trait KeepsAffinity of IPVS in the kernel's own list: a
// client that is known keeps the time with which it became known, and a new client has the new one. Flows end
// after a second here, so that they do not prolong affinity.
func TestKnownClientsKeepTheirTimeOfAffinity(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	p, err := ipvs.New(kernel.Options{
		Log: kittest.Logger(t), Journal: n.Journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: n.Node.Path,
		Timeouts: kernelmode.Timeouts{UDP: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	netnstest.SetSources(t, p, n.Sources())
	_, packet := n.Listen(t, plan.UDP, false)
	defer packet.Close()
	v := netnstest.Server(fresh(t, n), packet.LocalAddr().(*net.UDPAddr).AddrPort())
	v.Protocol = plan.UDP
	program := func(affinity time.Duration) {
		v := *v
		v.Affinity = affinity
		netnstest.Program(t, p, &v)
	}
	send := func(client int) {
		t.Helper()
		source := n.ClientAddr(dataplanetest.Inside, client, false)
		conn, err := n.Dial(t.Context(), dataplanetest.Inside, netip.AddrPortFrom(source, 0), plan.UDP, v.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	rest := func(client int) (time.Duration, bool) {
		return remembered(t, n, n.ClientAddr(dataplanetest.Inside, client, false))
	}
	const long, short = time.Hour, 4 * time.Second

	program(long)
	send(0)
	program(short)
	send(0)
	send(1)
	if left, known := rest(0); !known || left < long/2 {
		t.Errorf("shortened: the known client is remembered for %s (%t)", left, known)
	}
	if left, known := rest(1); known && left > short {
		t.Errorf("shortened: the new client is remembered for %s", left)
	}
	send(1)
	program(long)
	send(1)
	send(2)
	if left, known := rest(1); known && left > short {
		t.Errorf("lengthened: the known client is remembered for %s", left)
	}
	if left, known := rest(2); !known || left < long/2 {
		t.Errorf("lengthened: the new client is remembered for %s (%t)", left, known)
	}
	kittest.Eventually(t, "the client with the short time to be forgotten", func() error {
		if left, known := rest(1); known {
			return fmt.Errorf("it is remembered for %s", left)
		}
		return nil
	})
}

// remembered returns the rest of the time for which IPVS remembers a client's backend, from the list of
// connections. The line of a client has no port of its own: UDP 00:03 NONE CLIENT:0 SERVER BACKEND.
func remembered(t testing.TB, n *netnstest.Network, client netip.Addr) (time.Duration, bool) {
	t.Helper()
	for line := range strings.Lines(ipvsadm(t, n, "-Lnc")) {
		f := strings.Fields(line)
		if len(f) < 6 || f[3] != netip.AddrPortFrom(client, 0).String() {
			continue
		}
		minutes, seconds, _ := strings.Cut(f[1], ":")
		m, err := strconv.Atoi(minutes)
		s, err2 := strconv.Atoi(seconds)
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return time.Duration(m)*time.Minute + time.Duration(s)*time.Second, true
	}
	return 0, false
}

// TestAgentReportsAChangedTimeOfAffinity checks that the service gets an Event.
func TestAgentReportsAChangedTimeOfAffinity(t *testing.T) {
	w := newAgentWorld(t)
	at := fresh(t, w.Network)
	sticky := func(seconds int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	w.log.Put(service("web", at, sticky(3600)), endpoints("web", echo(t, w.Network)))
	_, stop := w.start()
	w.log.Put(service("web", at, sticky(2)))
	if e := w.event("AffinityKept"); e.GetRegarding().GetName() != "web" || !strings.Contains(e.GetMessage(), "keep 1h0m0s") {
		t.Errorf("event %v", e)
	}
	stop()
	w.log.Put(service("web", at, sticky(60)))
	_, stop = w.start()
	if e := w.event("AffinityKept"); !strings.Contains(e.GetMessage(), "affinity of 1m0s; clients that this node knows keep 2s") {
		t.Errorf("event after a restart %v", e)
	}
	stop()
	w.cleanup()
}
