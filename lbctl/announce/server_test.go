package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

type announceStream = grpc.BidiStreamingClient[loadbalancerv1.AnnounceRequest, loadbalancerv1.AnnounceResponse]

var web = netip.MustParseAddr("192.0.2.10")

// newServer serves agents without certificates. It does not lead.
func newServer(t *testing.T) (*Server, loadbalancerv1.AnnouncerServiceClient) {
	t.Helper()
	s := NewServer(ServerOptions{Log: kittest.Logger(t), Metrics: obs.NewMetrics()})
	s.SetWanted([]Wanted{{Address: web, Nodes: map[string]bool{"n1": true, "n2": true}}})
	conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) { loadbalancerv1.RegisterAnnouncerServiceServer(r, s) })
	return s, loadbalancerv1.NewAnnouncerServiceClient(conn)
}

// lead makes a server lead until the test ends, or end is called.
func lead(t *testing.T, s *Server) (end func()) {
	t.Helper()
	end = kittest.Run(t, "leader", func(ctx context.Context) error { s.Lead(ctx); return nil })
	kittest.Eventually(t, "the term", func() error {
		if _, ok := s.Statuses(); !ok {
			return errors.New("it does not lead")
		}
		return nil
	})
	return end
}

// announce opens a stream and receives the greeting.
func announce(t *testing.T, client loadbalancerv1.AnnouncerServiceClient) announceStream {
	t.Helper()
	stream, err := client.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	greeted, err := stream.Recv()
	if err != nil || greeted.GetSequence() != 1 || greeted.GetAnsweredMessage() != 0 || len(greeted.GetAddresses()) > 0 {
		t.Fatalf("greeting %v, %v", greeted, err)
	}
	return stream
}

// request returns a message of a node that may announce.
func request(node string, sequence, followed uint64, addresses ...string) *loadbalancerv1.AnnounceRequest {
	return &loadbalancerv1.AnnounceRequest{
		Node: node, Instance: "of " + node, Sequence: sequence, FollowedAnswer: followed, Addresses: addresses, Subnets: []string{"192.0.2.0/24"}, Ready: true,
	}
}

func ended(t *testing.T, stream announceStream, code codes.Code, text string) {
	t.Helper()
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != code || !strings.Contains(err.Error(), text) {
				t.Errorf("the stream has ended by %v, want %s with %q", err, code, text)
			}
			return
		}
	}
}

// TestServerLeads checks that only a leader greets, that a new leader lets a node keep the address
// that it lists, and that all streams end with the term.
func TestServerLeads(t *testing.T) {
	s, client := newServer(t)
	stream, err := client.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, stream, codes.Unavailable, "does not lead")

	end := lead(t, s)
	stream = announce(t, client)
	if err := stream.Send(request("n2", 1, 1, web.String())); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || answer.GetAnsweredMessage() != 1 || answer.GetValidity().AsDuration() != DefaultValidity || len(answer.GetAddresses()) != 1 || answer.GetAddresses()[0] != web.String() {
		t.Fatalf("answer %v, %v", answer, err)
	}
	if all, _ := s.Statuses(); len(all) != 1 || all[0].Reason != Announced || all[0].Node != "n2" {
		t.Errorf("statuses %+v", all)
	}
	if got := announced(t, s); got != 1 {
		t.Errorf("%g addresses are announced by the metrics", got)
	}
	end()
	ended(t, stream, codes.Unavailable, "does not lead")
	if _, ok := s.Statuses(); ok {
		t.Error("it leads after the end of the term")
	}
}

// TestServerAsksForEdges checks that a node gets an address of edges only while it reports it as served,
// and is told that it is one.
func TestServerAsksForEdges(t *testing.T) {
	s, client := newServer(t)
	s.SetWanted([]Wanted{{Address: web, Nodes: map[string]bool{"n1": true}, Proxied: true}})
	lead(t, s)
	stream := announce(t, client)
	var followed, sequence uint64
	for _, served := range [][]string{nil, {"192.0.2.99", web.String()}, {"192.0.2.99"}} {
		// The agent lists the addresses of the last answer, without those that its edge no longer serves.
		kittest.Eventually(t, fmt.Sprintf("the answer to an edge that serves %v", served), func() error {
			sequence++
			r := request("n1", sequence, max(followed, greeting))
			r.Served = served
			if err := stream.Send(r); err != nil {
				return err
			}
			answer, err := stream.Recv()
			if err != nil {
				return err
			}
			followed = answer.GetSequence()
			want := 0
			if slices.Contains(served, web.String()) {
				want = 1
			}
			if len(answer.GetAddresses()) != want || len(answer.GetProxied()) != want {
				return fmt.Errorf("%v", answer)
			}
			return nil
		})
	}
	all, _ := s.Statuses()
	if len(all) != 1 || all[0].Reason != NoEdge || !strings.Contains(all[0].Message, "-agent") {
		t.Errorf("statuses %+v", all)
	}
}

// announced returns the number of announced addresses in the metrics.
func announced(t *testing.T, s *Server) float64 {
	t.Helper()
	families, err := s.opts.Metrics.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "portolan_lbctl_announce_addresses" {
			return f.GetMetric()[0].GetGauge().GetValue() // the states are ordered by name
		}
	}
	return -1
}

// TestServerRefuses checks that messages outside of the contract end the stream with an error that
// names the field, and that a second stream of a node ends the first one.
func TestServerRefuses(t *testing.T) {
	s, client := newServer(t)
	lead(t, s)
	for _, c := range []struct {
		change func(*loadbalancerv1.AnnounceRequest)
		code   codes.Code
		want   string
	}{
		{func(r *loadbalancerv1.AnnounceRequest) { r.Node = "" }, codes.InvalidArgument, "node"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Instance = strings.Repeat("x", 65) }, codes.InvalidArgument, "instance"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Addresses = []string{"fe80::1%eth0"} }, codes.InvalidArgument, "addresses[0]"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Subnets = []string{"192.0.2.0"} }, codes.InvalidArgument, "subnets[0]"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Addresses = make([]string, maxAddresses+1) }, codes.InvalidArgument, "at most"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Served = []string{"web"} }, codes.InvalidArgument, "served[0]"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Kept = make([]string, maxAddresses+1) }, codes.InvalidArgument, "at most"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.Sequence = 0 }, codes.InvalidArgument, "sequence"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.FollowedAnswer = 2 }, codes.InvalidArgument, "followed_answer"},
		{func(r *loadbalancerv1.AnnounceRequest) { r.FollowedAnswer = 0 }, codes.InvalidArgument, "followed_answer"},
	} {
		stream, r := announce(t, client), request("n1", 1, 1)
		c.change(r)
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		ended(t, stream, c.code, c.want)
	}
	first, second := announce(t, client), announce(t, client)
	for _, stream := range []announceStream{first, second} {
		if err := stream.Send(request("n1", 1, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	ended(t, first, codes.Aborted, "another stream")
	for n := uint64(2); second.Send(request("n1", n, 1)) == nil; n++ { // until the stream has ended
	}
	ended(t, second, codes.ResourceExhausted, "messages a second")
}

// TestServerChecksTheCertificate checks that a node agent announces for its own node only.
func TestServerChecksTheCertificate(t *testing.T) {
	certs := kittest.NewCertificates(t)
	s := NewServer(ServerOptions{Log: kittest.Logger(t), Metrics: obs.NewMetrics()})
	log := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{
		Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: certs.Source("registry"), Authorizer: access.Methods(),
	})
	loadbalancerv1.RegisterAnnouncerServiceServer(srv, s)
	lis := kittest.Listen(t)
	kittest.Run(t, "server", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	lead(t, s)
	conn, err := rpc.TCP().Dial(lis.Addr().String(), certs.Source("nodeagent/n1").DialOption(identity.Registry))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := loadbalancerv1.NewAnnouncerServiceClient(conn)
	for _, node := range []string{"n1", "n2"} {
		stream := announce(t, client)
		if err := stream.Send(request(node, 1, 1)); err != nil {
			t.Fatal(err)
		}
		if node == "n2" {
			ended(t, stream, codes.PermissionDenied, "may not announce addresses for node")
		} else if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
	}
}

// TestServerTellsDeathFromSilence checks two ends of a stream of a node that forwards without its agent. If the
// connection was closed, the node keeps its address for a restart. If the agent has given up the stream, no
// restart is expected.
func TestServerTellsDeathFromSilence(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(conn *grpc.ClientConn, cancel func()) error
		want string
	}{
		{"the connection is closed", func(conn *grpc.ClientConn, _ func()) error { return conn.Close() }, "the agent of node n1 restarts"},
		{"the stream is given up", func(_ *grpc.ClientConn, cancel func()) error { cancel(); return nil }, "node n1 announces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewServer(ServerOptions{Log: kittest.Logger(t), Metrics: obs.NewMetrics()})
			s.SetWanted([]Wanted{{Address: web, Nodes: map[string]bool{"n1": true}}})
			conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) { loadbalancerv1.RegisterAnnouncerServiceServer(r, s) })
			lead(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := loadbalancerv1.NewAnnouncerServiceClient(conn).Announce(ctx)
			if err != nil {
				t.Fatal(err)
			}
			r := request("n1", 1, 0, web.String())
			r.ForwardsAlone = true
			for range 2 { // the greeting, and the answer
				answer, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if r.FollowedAnswer = answer.GetSequence(); answer.GetAnsweredMessage() == 0 {
					err = stream.Send(r)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := c.end(conn, cancel); err != nil {
				t.Fatal(err)
			}
			kittest.Eventually(t, "the end of the stream", func() error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.streams) > 0 {
					return errors.New("it is open")
				}
				return nil
			})
			if all, _ := s.Statuses(); len(all) != 1 || all[0].Node != "n1" || !strings.HasPrefix(all[0].Message, c.want) {
				t.Errorf("statuses %+v, want %q", all, c.want)
			}
		})
	}
}
