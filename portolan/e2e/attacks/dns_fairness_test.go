package attacks

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// TestOneClientCannotStarveForwarding sends questions from n1 that the upstream server never
// answers, until the name server drops them. A question from n2 must be answered nevertheless.
func TestOneClientCannotStarveForwarding(t *testing.T) {
	upstream := startUpstream(t)
	i := labtest.Install(t, labtest.Options{
		Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
		Flags: map[string][]string{"dnssvc": {"-upstreams", upstream, "-upstream-timeout", "5m", "-max-pending", "200"}},
	})
	attacker := dialFrom(t, i.Nodes[0].Namespace, i.DNS().String())
	kittest.Eventually(t, "the first dropped question", func() error {
		for n := range 500 {
			if err := attacker.WriteMsg(new(dns.Msg).SetQuestion(fmt.Sprintf("%d.silent.example.", n), dns.TypeA)); err != nil {
				return err
			}
		}
		if i.Metric("dnssvc", `portolan_dnssvc_dropped_total{reason="client"}`) == 0 {
			return errors.New("no question was dropped")
		}
		return nil
	})
	victim := dialFrom(t, i.Nodes[1].Namespace, i.DNS().String())
	kittest.Eventually(t, "the answer for another client", func() error { // a datagram may be lost
		question := new(dns.Msg).SetQuestion("good.example.", dns.TypeA)
		if err := victim.WriteMsg(question); err != nil {
			return err
		}
		if err := victim.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		reply, err := victim.ReadMsg()
		if err == nil && len(reply.Answer) != 1 {
			err = fmt.Errorf("the answer is %s", reply)
		}
		return err
	})
	kittest.Eventually(t, "the end of the other client's question", func() error { // the metric is reduced after the answer is sent
		if waiting := i.Metric("dnssvc", "portolan_dnssvc_pending_queries"); waiting != 100 {
			return fmt.Errorf("%v questions wait, want the attacker's half of 200", waiting)
		}
		return nil
	})
}

// startUpstream starts a name server that answers for good.example only, and returns its address.
func startUpstream(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if m.Question[0].Name != "good.example." {
			return
		}
		reply := new(dns.Msg).SetReply(m)
		reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "good.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(192, 0, 2, 1)}}
		_ = w.WriteMsg(reply)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return conn.LocalAddr().String()
}

// dialFrom returns a connection by UDP from a namespace, which is closed when the test ends.
func dialFrom(t *testing.T, in *topology.Namespace, addr string) *dns.Conn {
	t.Helper()
	var conn net.Conn
	if err := in.Do(func() (err error) { conn, err = net.Dial("udp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &dns.Conn{Conn: conn}
}
