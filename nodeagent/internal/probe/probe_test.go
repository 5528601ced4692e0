package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/internal/probe"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// world is a registry of pods that a prober watches and writes to.
type world struct {
	t      *testing.T
	prober *probe.Prober
	// address is the node's main address: 127.0.0.2 at first.
	address atomic.Value
	refused chan string // the reasons of refused checks

	mu       sync.Mutex
	pods     map[string]*corev1.Pod
	failures int // number of writes that will fail
	writes   int
}

func newWorld(t *testing.T, with ...func(*probe.Options)) *world {
	w := &world{t: t, refused: make(chan string, 100), pods: map[string]*corev1.Pod{}}
	w.address.Store("127.0.0.2")
	options := probe.Options{
		Log: kittest.Logger(t), Write: w.write, Spread: time.Millisecond, RetryMin: time.Millisecond, ReportPause: time.Millisecond,
		NodeAddress: func() string { return w.address.Load().(string) },
		Refused:     func(pod object.Key, reason error) { w.refused <- pod.Path() + ": " + reason.Error() },
	}
	for _, change := range with {
		change(&options)
	}
	w.prober = probe.New(options)
	kittest.Run(t, "prober", w.prober.Run)
	return w
}

func (w *world) write(_ context.Context, pod *corev1.Pod, change func(*corev1.Pod) bool) error {
	w.mu.Lock()
	if w.failures > 0 {
		w.failures--
		w.mu.Unlock()
		return errors.New("the registry is away")
	}
	now := w.pods[pod.GetMetadata().GetName()].CloneVT()
	if now != nil && change(now) {
		w.writes++
		w.pods[pod.GetMetadata().GetName()] = now
	}
	w.mu.Unlock()
	w.tell()
	return nil
}

// tell passes all pods to the prober, as the change stream does.
func (w *world) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*corev1.Pod
	for _, p := range w.pods {
		all = append(all, p)
	}
	w.prober.Set(all)
}

func (w *world) put(pod *corev1.Pod) {
	w.mu.Lock()
	w.pods[pod.GetMetadata().GetName()] = pod
	w.mu.Unlock()
	w.tell()
}

func (w *world) get(name string) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[name].CloneVT()
}

// until waits for a status of a pod's Ready condition.
func (w *world) until(name string, want corev1.ConditionStatus) *corev1.Condition {
	w.t.Helper()
	var found *corev1.Condition
	kittest.Eventually(w.t, fmt.Sprintf("%s to be %s", name, want), func() error {
		for _, c := range w.get(name).GetStatus().GetConditions() {
			if c.GetType() == "Ready" && c.GetStatus() == want {
				found = c
				return nil
			}
		}
		return fmt.Errorf("conditions %v", w.get(name).GetStatus().GetConditions())
	})
	return found
}

// untilMessage waits for a part of the message of a pod's Ready condition, which is false.
func (w *world) untilMessage(name, part string) {
	w.t.Helper()
	kittest.Eventually(w.t, fmt.Sprintf("%s to be not ready because of %q", name, part), func() error {
		c := object.Condition(w.get(name).GetStatus().GetConditions(), object.ConditionReady)
		if c.GetStatus() != isFalse || !strings.Contains(c.GetMessage(), part) {
			return fmt.Errorf("condition %v", c)
		}
		return nil
	})
}

const (
	isTrue  = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	isFalse = corev1.ConditionStatus_CONDITION_STATUS_FALSE
)

func pod(name string, p *corev1.Probe) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: "uid-" + name},
		Spec:     &corev1.PodSpec{NodeName: "here", Containers: []*corev1.Container{{Name: "main", ReadinessProbe: p}}},
		Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "127.0.0.1"},
	}
}

func number(port uint16) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: int32(port)}}
}

func portOf(a net.Addr) uint16 { return a.(*net.TCPAddr).AddrPort().Port() }

// every makes a probe run each second and act on the first result.
func every(p *corev1.Probe) *corev1.Probe {
	p.PeriodSeconds, p.FailureThreshold, p.TimeoutSeconds = 1, 1, 60
	return p
}

func TestPodsWithoutProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(pod("plain", nil))
	w.until("plain", isTrue)

	pending := pod("pending", nil)
	pending.Status.Phase = corev1.PodPhase_POD_PHASE_PENDING
	w.put(pending)
	if c := w.until("pending", isFalse); c.GetReason() != "PodNotRunning" {
		t.Errorf("reason %q", c.GetReason())
	}
	started := w.get("pending")
	started.Status.Phase = corev1.PodPhase_POD_PHASE_RUNNING
	w.put(started)
	w.until("pending", isTrue)
	ended := w.get("pending")
	ended.Status.Phase = corev1.PodPhase_POD_PHASE_SUCCEEDED
	w.put(ended)
	w.until("pending", isFalse)
}

func TestReadinessGates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := pod("gated", nil)
	p.Spec.ReadinessGates = []*corev1.PodReadinessGate{{ConditionType: "example.com/warm"}}
	w.put(p)
	if c := w.until("gated", isFalse); !strings.Contains(c.GetMessage(), "example.com/warm") {
		t.Errorf("message %q", c.GetMessage())
	}
	p = w.get("gated")
	p.Status.Conditions = append(p.Status.Conditions, &corev1.Condition{Type: "example.com/warm", Status: isTrue})
	w.put(p)
	w.until("gated", isTrue)
}

// TestTCP checks that a pod is not ready before the first success, ready after it, and not ready
// once connecting fails.
func TestTCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lis := kittest.Listen(t)
	w.put(pod("tcp", every(&corev1.Probe{
		InitialDelaySeconds: 1,
		Handler:             &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: number(portOf(lis.Addr()))}},
	})))
	if c := w.until("tcp", isFalse); c.GetReason() != "ContainersNotReady" || !strings.Contains(c.GetMessage(), "no probe has succeeded yet") {
		t.Errorf("at first: %v", c)
	}
	w.until("tcp", isTrue)
	lis.Close()
	if c := w.until("tcp", isFalse); !strings.Contains(c.GetMessage(), "refused") {
		t.Errorf("message %q", c.GetMessage())
	}
}

// TestHostNetwork checks that a pod of the host network without an address is probed at the node's
// main address, so that a program that listens on another loopback address only is not ready, and
// that the probes follow the node's address.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lis, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	p := pod("host", every(&corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: number(portOf(lis.Addr()))}}}))
	p.Spec.HostNetwork, p.Status.PodIp = true, ""
	w.put(p)
	w.untilMessage("host", "127.0.0.2:"+strconv.Itoa(int(portOf(lis.Addr())))+": connect: connection refused")
	w.address.Store("127.0.0.3")
	w.prober.Readdress()
	w.until("host", isTrue)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var code atomic.Int64
	code.Store(http.StatusServiceUnavailable)
	asked := make(chan *http.Request, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- r
		rw.Header().Set("Location", "http://192.0.2.1/elsewhere")
		rw.WriteHeader(int(code.Load()))
		fmt.Fprintln(rw, "warming up")
	}))
	defer srv.Close()
	p := pod("http", every(&corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{
		Path: "healthz?full=1", Port: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "web"}},
		HttpHeaders: []*corev1.HTTPHeader{{Name: "Host", Value: "web.example"}, {Name: "X-Probe", Value: "1"}},
	}}}))
	p.Spec.Containers[0].Ports = []*corev1.ContainerPort{{Name: "web", ContainerPort: int32(netip.MustParseAddrPort(srv.Listener.Addr().String()).Port())}}
	w.put(p)
	r := kittest.Receive(t, "a question", asked)
	if r.URL.String() != "/healthz?full=1" || r.Host != "web.example" || r.Header.Get("X-Probe") != "1" {
		t.Errorf("asked %s of %s with %v", r.URL, r.Host, r.Header)
	}
	w.until("http", isFalse)
	code.Store(http.StatusFound) // to another host: counts as an answer
	w.until("http", isTrue)
	code.Store(http.StatusNotFound)
	if c := w.until("http", isFalse); !strings.Contains(c.GetMessage(), "404 Not Found: warming up") {
		t.Errorf("message %q", c.GetMessage())
	}
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lis := kittest.Listen(t)
	srv, health := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(srv, health)
	go srv.Serve(lis)
	defer srv.Stop()
	name := "shop"
	health.SetServingStatus(name, healthpb.HealthCheckResponse_NOT_SERVING)
	w.put(pod("grpc", every(&corev1.Probe{Handler: &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: int32(portOf(lis.Addr())), Service: &name}}})))
	w.until("grpc", isFalse)
	health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	w.until("grpc", isTrue)
}

// TestReadyStaysReadyWhenTheAgentRestarts checks that one failure is not enough to make a pod
// unready that is ready in the registry.
func TestReadyStaysReadyWhenTheAgentRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		rw.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()
	p := pod("known", every(&corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{
		Port: number(portOf(srv.Listener.Addr())),
	}}}))
	p.Spec.Containers[0].ReadinessProbe.FailureThreshold = 2
	p.Status.Conditions = []*corev1.Condition{{Type: "Ready", Status: isTrue}}
	w.put(p)
	w.until("known", isFalse)
	if n := asked.Load(); n < 2 {
		t.Errorf("not ready after %d failures, want 2", n)
	}
}

// TestWritesAreRepeated checks that writes are repeated until they succeed, and not more often.
func TestWritesAreRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mu.Lock()
	w.failures = 3
	w.mu.Unlock()
	w.put(pod("p", nil))
	w.until("p", isTrue)
	// Another client overwrites the condition: the prober corrects it.
	p := w.get("p")
	p.Status.Conditions = []*corev1.Condition{{Type: "Ready", Status: isFalse, Reason: "Mistake"}}
	w.put(p)
	w.until("p", isTrue)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes != 2 {
		t.Errorf("%d writes, want 2", w.writes)
	}
}

func TestPodsThatGoAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lis := kittest.Listen(t)
	w.put(pod("p", every(&corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: number(portOf(lis.Addr()))}}})))
	if n := w.prober.Pods(); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
	w.prober.Set(nil)
	if n := w.prober.Pods(); n != 0 {
		t.Errorf("%d pods, want none", n)
	}
}

// podServer is a registry with one pod. Its first updates fail with a conflict.
type podServer struct {
	registryv1.UnimplementedPodServiceServer
	mu        sync.Mutex
	pod       *corev1.Pod
	conflicts int
	updates   int
}

func (s *podServer) GetPod(context.Context, *registryv1.GetPodRequest) (*registryv1.GetPodResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pod == nil {
		return nil, status.Error(codes.NotFound, "gone")
	}
	return &registryv1.GetPodResponse{Pod: s.pod.CloneVT()}, nil
}

func (s *podServer) UpdatePodStatus(_ context.Context, req *registryv1.UpdatePodStatusRequest) (*registryv1.UpdatePodStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.updates++; s.updates <= s.conflicts {
		return nil, status.Error(codes.Aborted, "somebody was faster")
	}
	s.pod = req.GetPod()
	return &registryv1.UpdatePodStatusResponse{Pod: s.pod}, nil
}

func TestRegistryWriter(t *testing.T) {
	t.Parallel()
	srv := &podServer{pod: pod("p", nil), conflicts: 2}
	write := probe.RegistryWriter(registryv1.NewPodServiceClient(kittest.Conn(t, func(r grpc.ServiceRegistrar) { registryv1.RegisterPodServiceServer(r, srv) })))
	mark := func(p *corev1.Pod) bool { p.Status.Reason = "marked"; return true }
	if err := write(t.Context(), pod("p", nil), mark); err != nil {
		t.Fatal(err)
	}
	if srv.pod.GetStatus().GetReason() != "marked" || srv.updates != 3 {
		t.Errorf("reason %q after %d updates", srv.pod.GetStatus().GetReason(), srv.updates)
	}
	other := pod("p", nil)
	other.Metadata.Uid = "another incarnation"
	if err := write(t.Context(), other, mark); err != nil || srv.updates != 3 {
		t.Errorf("another incarnation was written to: %v", err)
	}
	srv.mu.Lock()
	srv.pod = nil
	srv.mu.Unlock()
	if err := write(t.Context(), pod("p", nil), mark); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
}
