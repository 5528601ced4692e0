package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

// collector collects the daemons' spans, each as "daemon: name".
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	addr string

	mu      sync.Mutex
	names   map[string]string // by span
	parents map[string]string // by span
	traces  map[string]string // by span
}

func collect(t *testing.T) *collector {
	t.Helper()
	lis := kittest.Listen(t)
	c := &collector{addr: lis.Addr().String(), names: map[string]string{}, parents: map[string]string{}, traces: map[string]string{}}
	srv := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(srv, c)
	kittest.Run(t, "collector", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, srv.Stop)()
		return srv.Serve(lis)
	})
	return c
}

// Export implements collectorv1.TraceServiceServer.
func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range req.GetResourceSpans() {
		daemon := ""
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				daemon = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.add(daemon, span)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (c *collector) add(daemon string, span *tracev1.Span) {
	id := hex.EncodeToString(span.GetSpanId())
	c.names[id] = daemon + ": " + span.GetName()
	c.parents[id], c.traces[id] = hex.EncodeToString(span.GetParentSpanId()), hex.EncodeToString(span.GetTraceId())
}

// paths returns the paths from the root of a trace to each of its spans, as far as all spans of a
// path have arrived.
func (c *collector) paths(trace, root string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for id := range c.names {
		var path []string
		at := id
		for c.names[at] != "" && c.traces[at] == trace {
			path = append(path, c.names[at])
			at = c.parents[at]
		}
		if at == root {
			slices.Reverse(path)
			all = append(all, strings.Join(path, " > "))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestTraceOfAChange follows the creation of a service in one trace: to the kernel (here the
// userspace plane), to the names, to its endpoints, and with these to the kernel again.
func TestTraceOfAChange(t *testing.T) {
	spans := collect(t)
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.startDev("--trace-endpoint", spans.addr)
	i.hello("one", "app=traced", "http", 9376)
	client := registryv1.NewServiceServiceClient(i.dial(7400))

	const (
		call   = "registry: portolan.registry.v1.ServiceService/CreateService > "
		commit = call + "registry: commit"
		slice  = commit + " > endpointctl: apply > endpointctl: sync > endpointctl: portolan.registry.v1.BulkService/Write" +
			" > registry: portolan.registry.v1.BulkService/Write > registry: commit"
		plan = " > nodeagent: apply > nodeagent: sync > nodeagent: plan"
		done = " > nodeagent: apply > nodeagent: sync > nodeagent: program"
	)
	want := []string{
		call + "registry: admission", call + "registry: allocate", commit, call + "registry: visible",
		commit + " > registry: publish", commit + " > dnssvc: apply > dnssvc: names",
		commit + " > nodeagent: apply > nodeagent: view", commit + plan, commit + done,
		slice, slice + " > registry: publish", slice + plan, slice + done,
	}
	const root = "00f067aa0ba902b7"
	// Changes that arrive together are programmed together, in the trace of the first. The
	// endpoints' path is then not in its own trace, so the test tries again with another service.
	for n := range 20 {
		trace := fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", n)
		name := fmt.Sprint("traced-", n)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+root+"-01")
		_, err := client.CreateService(ctx, &registryv1.CreateServiceRequest{Service: &corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
			Spec: &corev1.ServiceSpec{
				Selector: map[string]string{"app": "traced"},
				Ports:    []*corev1.ServicePort{{Port: 80, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 9376}}}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		i.awaitBackends(name, 1)
		var got []string
		kittest.Eventually(t, "the trace", func() error { // spans are sent once a second
			got = spans.paths(trace, root)
			if !slices.ContainsFunc(got, func(path string) bool { return strings.HasPrefix(path, slice+" > nodeagent: apply") }) {
				return errors.New(strings.Join(got, "\n"))
			}
			return nil
		})
		missing := slices.DeleteFunc(slices.Clone(want), func(path string) bool { return slices.Contains(got, path) })
		if len(missing) == 0 {
			return
		}
		t.Logf("try %d: missing\n%s\nof\n%s", n, strings.Join(missing, "\n"), strings.Join(got, "\n"))
	}
	t.Error("no trace was complete")
}
