package ipvs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/program"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// agentEnv makes the test binary run a node agent.
const agentEnv = "PORTOLAN_TEST_AGENT"

func agentMain() int { return daemon.Main("nodeagent", program.New) }

// agentWorld is a registry, and the node of the test process with a network around it.
type agentWorld struct {
	*netnstest.Network
	t      *testing.T
	log    *changestest.Log
	cfg    nodeagent.Config
	events chan *corev1.Event
}

func newAgentWorld(t *testing.T) *agentWorld {
	kerneltest.Need(t)
	node := topology.Own(t, "node")
	node.Sysctl(t, "net.ipv4.icmp_ratelimit", "0")
	w := &agentWorld{Network: netnstest.Around(t, node), t: t, log: changestest.New(t), events: make(chan *corev1.Event, 1000)}
	log := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)})
	w.log.Register(srv)
	registryv1.RegisterEventServiceServer(srv, &events{w: w})
	lis := kittest.Listen(t)
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	free := kittest.Listen(t) // the port stays free, because nothing else runs in this kernel
	free.Close()
	config.Defaults(&w.cfg)
	w.cfg.Addr, w.cfg.HTTPAddr, w.cfg.Registry = free.Addr().String(), "127.0.0.1:0", lis.Addr().String()
	w.cfg.NATSURL, w.cfg.NATSPrefix = w.log.URL(), changestest.Prefix
	w.cfg.NodeName, w.cfg.DataDir = "here", t.TempDir()
	w.cfg.ServiceCIDR, w.cfg.PodCIDR = netnstest.Virtual[:], netnstest.Pods[:]
	return w
}

// events is the part of the registry's EventService that an agent uses.
type events struct {
	registryv1.UnimplementedEventServiceServer
	w *agentWorld
}

func (s *events) CreateEvent(_ context.Context, req *registryv1.CreateEventRequest) (*registryv1.CreateEventResponse, error) {
	s.w.events <- req.GetEvent()
	return &registryv1.CreateEventResponse{Event: req.GetEvent()}, nil
}

// event waits for an event with a reason.
func (w *agentWorld) event(reason string) *corev1.Event {
	w.t.Helper()
	for {
		if e := kittest.Receive(w.t, "an event "+reason, w.events); e.GetReason() == reason {
			return e
		}
	}
}

// start runs an agent in this process until stop is called. It returns once the agent has applied
// everything.
func (w *agentWorld) start() (client nodeagentv1.NodeAgentServiceClient, stop func()) {
	w.t.Helper()
	agent, err := program.New(w.t.Context(), w.cfg, kittest.Host(w.t, rpc.TCP(), w.log.URL()))
	if err != nil {
		w.t.Fatal(err)
	}
	stop = kittest.Run(w.t, "agent", agent.Run)
	client = w.client()
	w.applied(client)
	return client, stop
}

func (w *agentWorld) client() nodeagentv1.NodeAgentServiceClient {
	w.t.Helper()
	var conn *grpc.ClientConn
	conn, err := rpc.TCP().Dial(w.cfg.Addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return nodeagentv1.NewNodeAgentServiceClient(conn)
}

// applied waits until an agent has programmed the registry's last revision.
func (w *agentWorld) applied(client nodeagentv1.NodeAgentServiceClient) *nodeagentv1.GetStatusResponse {
	w.t.Helper()
	head := w.log.Revision()
	var res *nodeagentv1.GetStatusResponse
	kittest.Eventually(w.t, fmt.Sprintf("revision %d to be applied", head), func() (err error) {
		res, err = client.GetStatus(w.t.Context(), &nodeagentv1.GetStatusRequest{})
		if err == nil && (res.GetAppliedRevision() < head || !res.GetSynced()) {
			err = fmt.Errorf("at %d, synced %t", res.GetAppliedRevision(), res.GetSynced())
		}
		return err
	})
	return res
}

// cleanup removes the state that agents have left, and checks that nothing remains but the given virtual
// servers of others.
func (w *agentWorld) cleanup(theirs ...string) {
	w.t.Helper()
	if err := program.Cleanup(w.t.Context(), []string{"-data-dir", w.cfg.DataDir}); err != nil {
		w.t.Fatal(err)
	}
	if left := table(w.t, w.Network); strings.Count(left, "TCP ") != len(theirs) {
		w.t.Errorf("left behind:\n%s", left)
	}
	if found, err := filepath.Glob(filepath.Join(w.cfg.DataDir, "*.journal")); err != nil || len(found) > 0 {
		w.t.Errorf("left behind: %v, %v", found, err)
	}
}

// process is an agent in a process of its own.
type process struct {
	*exec.Cmd
	t    *testing.T
	done chan struct{}
}

// spawn starts an agent in a mode. The functions change its process.
func (w *agentWorld) spawn(mode string, change ...func(*exec.Cmd)) *process {
	w.t.Helper()
	list := func(of []netip.Prefix) string { return of[0].String() + "," + of[1].String() }
	p := &process{t: w.t, done: make(chan struct{}), Cmd: exec.Command("/proc/self/exe",
		"-addr", w.cfg.Addr, "-http-addr", w.cfg.HTTPAddr, "-registry", w.cfg.Registry, "-nats-url", w.cfg.NATSURL,
		"-nats-prefix", w.cfg.NATSPrefix, "-node-name", w.cfg.NodeName, "-data-dir", w.cfg.DataDir,
		"-service-cidr", list(w.cfg.ServiceCIDR), "-pod-cidr", list(w.cfg.PodCIDR), "-proxy-mode", mode, "-log-level", "error")}
	p.Env = append(os.Environ(), agentEnv+"=1")
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	for _, c := range change {
		c(p.Cmd)
	}
	if err := p.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.Wait() //nolint:errcheck // processes are ended by signals
		close(p.done)
	}()
	w.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal and waits until the process has ended.
func (p *process) end(s syscall.Signal) {
	p.t.Helper()
	p.Process.Signal(s) //nolint:errcheck // it may be gone
	kittest.Eventually(p.t, "the agent to end", func() error {
		select {
		case <-p.done:
			return nil
		default:
			return errors.New("it runs")
		}
	})
}

// listening waits until an agent has opened its port, which it does before it reads the kernel's
// state.
func (w *agentWorld) listening() {
	w.t.Helper()
	kittest.Eventually(w.t, "the agent to listen", func() error {
		conn, err := net.Dial("tcp", w.cfg.Addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// load runs clients: some connect again and again, others keep using their first connection. stop
// ends them and returns the connections that were lost.
func (w *agentWorld) load(at netip.AddrPort) (stop func() error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	var clients sync.WaitGroup
	var mu sync.Mutex
	var lost []error
	var count int
	note := func(what string, from dataplanetest.ClientLocation, err error) {
		mu.Lock()
		defer mu.Unlock()
		count++
		if err != nil && len(lost) < 10 {
			lost = append(lost, fmt.Errorf("%s from %s, %d uses after the first: %w", what, from, count, err))
		}
	}
	for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Node, dataplanetest.Outside} {
		kept, err := w.connect(from, at)
		if err != nil {
			w.t.Fatal(err)
		}
		work := func(use func() error, what string) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for last := false; !last; {
				select {
				case <-ctx.Done():
					last = true
				case <-tick.C:
				}
				note(what, from, use())
			}
		}
		clients.Go(func() {
			defer kept.Close()
			work(func() error { _, err := kept.ask(); return err }, "a connection that was kept")
		})
		clients.Go(func() {
			work(func() error {
				c, err := w.connect(from, at)
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.ask()
				return err
			}, "a new connection")
		})
	}
	return func() error {
		cancel()
		clients.Wait()
		return errors.Join(lost...)
	}
}

func (w *agentWorld) connect(from dataplanetest.ClientLocation, at netip.AddrPort) (*conversation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	source := netip.AddrPortFrom(w.ClientAddr(from, 0, at.Addr().Is6()), 0)
	conn, err := w.Dial(ctx, from, source, plan.TCP, at)
	if err != nil {
		return nil, err
	}
	return &conversation{conn, bufio.NewScanner(conn)}, nil
}

// own gives the node an address until the end of the test.
func (w *agentWorld) own(addr netip.Addr) {
	w.t.Helper()
	on := netip.PrefixFrom(addr, addr.BitLen())
	w.Node.Link(w.t, "lo", []netip.Prefix{on})
	w.t.Cleanup(func() {
		err := w.Node.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(on.String())
			if err != nil {
				return err
			}
			return netlink.AddrDel(lo, a)
		})
		if err != nil {
			w.t.Error(err)
		}
	})
}

// reach connects once.
func (w *agentWorld) reach(from dataplanetest.ClientLocation, at netip.AddrPort) error {
	_, err := seen(w.t, w.Network, from, at)
	return err
}

// service returns a ClusterIP service, modified by the given functions.
func service(name string, at netip.AddrPort, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: at.Addr().String(), ClusterIps: []string{at.Addr().String()},
			Ports: []*corev1.ServicePort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: int32(at.Port())}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

// endpoints returns the slice of a service's backends, all on this node and at the same port.
func endpoints(service string, at ...netip.AddrPort) *corev1.EndpointSlice {
	here := "here"
	slice := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: "default", Name: service + "-1", Labels: map[string]string{"kubernetes.io/service-name": service},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
	}
	for _, a := range at {
		port := int32(a.Port())
		slice.Ports = []*corev1.EndpointPort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}}
		slice.Endpoints = append(slice.Endpoints, &corev1.Endpoint{Addresses: []string{a.Addr().String()}, NodeName: &here})
	}
	return slice
}
