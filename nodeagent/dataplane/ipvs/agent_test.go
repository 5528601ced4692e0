package ipvs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	corev1 "portolan.dev/proto/portolan/core/v1"
	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// agentWorld is a registry in memory, and an agent of the node that the test
// process is on.
type agentWorld struct {
	log     *changestest.Log
	network *rpc.MemoryNetwork
	cfg     nodeagent.Config
}

func newAgentWorld(t *testing.T) *agentWorld {
	w := &agentWorld{log: changestest.New(t), network: rpc.Memory()}
	log := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)})
	w.log.Register(srv)
	lis, err := w.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	config.Defaults(&w.cfg)
	// The default port is free: nobody else is in this kernel.
	w.cfg.Registry, w.cfg.NATSPrefix = lis.Addr().String(), changestest.Prefix
	w.cfg.NodeName, w.cfg.DataDir = "here", t.TempDir()
	w.cfg.ServiceCIDR = netnstest.Virtual[:]
	return w
}

// start runs an agent until stop is called, once it has done all there is.
func (w *agentWorld) start(t *testing.T) (client nodeagentv1.NodeAgentServiceClient, stop func()) {
	t.Helper()
	agent, err := nodeagent.New(t.Context(), w.cfg, kittest.Host(t, w.network, w.log.URL()))
	if err != nil {
		t.Fatal(err)
	}
	stop = kittest.Run(t, "agent", agent.Run)
	var conn *grpc.ClientConn
	if conn, err = w.network.Dial(w.cfg.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client = nodeagentv1.NewNodeAgentServiceClient(conn)
	w.applied(t, client)
	return client, stop
}

func (w *agentWorld) applied(t *testing.T, client nodeagentv1.NodeAgentServiceClient) *nodeagentv1.GetStatusResponse {
	t.Helper()
	head := w.log.Revision()
	var res *nodeagentv1.GetStatusResponse
	kittest.Eventually(t, fmt.Sprintf("revision %d to be applied", head), func() (err error) {
		res, err = client.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err == nil && (res.GetAppliedRevision() < head || !res.GetSynced()) {
			err = fmt.Errorf("at %d, synced %t", res.GetAppliedRevision(), res.GetSynced())
		}
		return err
	})
	return res
}

func webService(name string, at netip.AddrPort) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: at.Addr().String(), ClusterIps: []string{at.Addr().String()},
			Ports: []*corev1.ServicePort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: int32(at.Port())}},
		},
	}
}

func webEndpoints(service string, at netip.AddrPort) *corev1.EndpointSlice {
	port := int32(at.Port())
	return &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: "default", Name: service + "-1", Labels: map[string]string{"kubernetes.io/service-name": service},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}},
		Endpoints:   []*corev1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	}
}

// An agent finds IPVS by itself; what it has set up goes on without it, and the
// next one takes it up: connections stay, and what has gone meanwhile goes.
func TestAgent(t *testing.T) {
	kerneltest.Need(t)
	node, backends := topology.Own(t, "node"), topology.New(t, "backends")
	topology.Connect(t, node, backends,
		[]netip.Prefix{netip.MustParsePrefix("172.31.9.1/24")}, []netip.Prefix{netip.MustParsePrefix("172.31.9.2/24")})
	backend := netip.MustParseAddrPort("172.31.9.2:8080")
	var lis net.Listener
	err := backends.Do(func() (err error) {
		lis, err = net.Listen("tcp", backend.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis)
	w := newAgentWorld(t)
	stays, goes := netip.MustParseAddrPort("10.96.0.10:80"), netip.MustParseAddrPort("10.96.0.11:80")
	w.log.Put(webService("stays", stays), webEndpoints("stays", backend), webService("goes", goes), webEndpoints("goes", backend))

	client, stop := w.start(t)
	if s := w.applied(t, client); s.GetProxyMode() != "ipvs" || s.GetVirtualServers() != 2 || len(s.GetFailures()) > 0 {
		t.Fatalf("status %v", s)
	}
	n := &netnstest.Network{Node: node}
	conversation, err := talk(t, n, dataplanetest.Node, stays)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(when string) {
		t.Helper()
		if _, err := conversation.ask(); err != nil {
			t.Fatalf("%s: the connection: %v", when, err)
		}
		if _, err := seen(t, n, dataplanetest.Node, stays); err != nil {
			t.Fatalf("%s: a new connection: %v", when, err)
		}
	}
	ask("at first")
	stop()
	ask("without an agent")
	w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "goes"})
	client, stop = w.start(t)
	ask("with the next agent")
	kittest.Eventually(t, "the service that went to be gone", func() error {
		if _, err := seen(t, n, dataplanetest.Node, goes); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("answered with %v", err)
		}
		return nil
	})
	if res, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{}); err != nil || res.GetRepaired() > 0 {
		t.Errorf("the audit finds %v, %v", res, err)
	}
	stop()
	if err := nodeagent.Cleanup(t.Context(), []string{"-data-dir", w.cfg.DataDir}); err != nil {
		t.Fatal(err)
	}
	if left := table(t, n); strings.Contains(left, "TCP ") {
		t.Errorf("left behind:\n%s", left)
	}
	if found, err := filepath.Glob(filepath.Join(w.cfg.DataDir, "*.journal")); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}
