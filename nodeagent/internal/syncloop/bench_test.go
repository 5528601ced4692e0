package syncloop

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/internal/healthcheck"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// bench is a syncer with a view of its own. The test controls its batches.
type bench struct {
	*Syncer
	t        testing.TB
	recorder *recorded
	revision uint64
	have     map[object.Key]object.Object
}

func newBench(t testing.TB, plane dataplane.Plane) *bench {
	recorder := &recorded{}
	b := &bench{Syncer: newSyncer(view.New("here", nil), plane, recorder), t: t, recorder: recorder, have: map[object.Key]object.Object{}}
	b.change()
	return b
}

// newSyncer returns a syncer with health-check ports of its own.
func newSyncer(v *view.View, plane dataplane.Plane, recorder Recorder) *Syncer {
	var s *Syncer
	checks := healthcheck.New(healthcheck.Options{
		Healthy: func() bool { return s.Healthy() },
		Report: func(service object.Name, port uint16, err error) {
			s.ReportHealthCheckPort(service, port, err)
		},
	})
	s = New(Options{
		View: v, Plane: plane, Listens: plane.Name() == "userspace", Checks: checks, Routes: noRoutes{}, Events: recorder,
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Programmed: func() {},
	})
	return s
}

// noRoutes advertise nothing.
type noRoutes struct{}

func (noRoutes) Programmed([]plan.FrontendServers, map[plan.Frontend]bool) {}

// recorded are the events that a syncer has written.
type recorded struct{ events []string }

func (r *recorded) WarnService(svc *corev1.Service, reason, message string) {
	r.events = append(r.events, reason+" "+svc.GetMetadata().GetName()+": "+message)
}

func (r *recorded) WarnNode(reason, message string) {
	r.events = append(r.events, reason+" here: "+message)
}

func newUserspaceBench(t *testing.T) *bench {
	plane := userspace.New(userspace.Options{})
	t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
	})
	return newBench(t, plane)
}

// change applies objects to the view in one batch. It does not sync.
func (b *bench) change(objects ...object.Object) {
	var batch []changes.Change
	for _, o := range objects {
		key := object.KeyOf(o)
		batch = append(batch, changes.Change{Kind: key.Kind, Key: key, Old: b.have[key], New: o})
		b.have[key] = o
	}
	b.apply(batch)
}

// replace does the same as change, and deletes other objects in the same batch.
func (b *bench) replace(gone []object.Object, objects ...object.Object) {
	var batch []changes.Change
	for _, o := range gone {
		key := object.KeyOf(o)
		batch = append(batch, changes.Change{Kind: key.Kind, Key: key, Old: b.have[key]})
		delete(b.have, key)
	}
	for _, o := range objects {
		key := object.KeyOf(o)
		batch = append(batch, changes.Change{Kind: key.Kind, Key: key, Old: b.have[key], New: o})
		b.have[key] = o
	}
	b.apply(batch)
}

func (b *bench) apply(batch []changes.Change) {
	b.revision++
	b.view.Apply(batch, b.revision)
	b.Changed(tracing.Span{})
}

// problems returns the events that were written since the last call.
func (b *bench) problems() []string {
	defer func() { b.recorder.events = nil }()
	return b.recorder.events
}

func webService(name string, created int64, at netip.AddrPort) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: name},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: at.Addr().String(), ClusterIps: []string{at.Addr().String()},
			Ports: []*corev1.ServicePort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: int32(at.Port())}},
		},
	}
	svc.Metadata.CreationTimestamp = &timestamppb.Timestamp{Seconds: created}
	return svc
}

func sliceOf(service string, backends ...netip.AddrPort) *corev1.EndpointSlice {
	port := int32(8080)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: "default", Name: service + "-1", Labels: map[string]string{object.LabelServiceName: service},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}},
	}
	for _, b := range backends {
		port = int32(b.Port())
		s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{b.Addr().String()}})
	}
	return s
}

// freeAt returns a free port at a loopback address.
func freeAt(t testing.TB, addr string) netip.AddrPort {
	t.Helper()
	lis, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}
