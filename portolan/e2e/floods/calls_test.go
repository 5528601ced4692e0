package floods

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestCalls makes calls that take memory of the registry without permission or without reading the
// answer, and calls with a certificate that expires meanwhile.
func TestCalls(t *testing.T) {
	i := install(t)
	t.Run("refused requests", func(t *testing.T) { sendRefusedRequests(t, i) })
	t.Run("unread streams", func(t *testing.T) { openUnreadStreams(t, i) })
	t.Run("expired certificate", func(t *testing.T) { outliveCertificate(t, i) })
}

// sendRefusedRequests sends requests of 4 MiB that the role dnssvc may not make. Each has two
// million empty ports, which take 2 bytes each until they are decoded.
func sendRefusedRequests(t *testing.T, i *labtest.Installation) {
	conn := i.DialAs(i.Issue("dnssvc", time.Hour), identity.Registry, i.RegistryAt())
	req := &registryv1.CreateServiceRequest{Service: &corev1.Service{Spec: &corev1.ServiceSpec{Ports: make([]*corev1.ServicePort, 2_000_000)}}}
	for n := range req.GetService().GetSpec().GetPorts() {
		req.Service.Spec.Ports[n] = &corev1.ServicePort{}
	}
	before := memory(t, i, "VmHWM")
	for range 5 {
		if _, err := registryv1.NewServiceServiceClient(conn).CreateService(t.Context(), req); status.Code(err) != codes.PermissionDenied {
			t.Fatal(err)
		}
	}
	grown := memory(t, i, "VmHWM") - before
	t.Logf("five refused requests of 4 MiB: the registry grew by %d KiB", grown)
	if grown > 16<<10 { // the registry does other work too
		t.Errorf("five refused requests took %d KiB of the registry's memory", grown)
	}
}

// memoryLimit is the most by which unread snapshots may increase the registry's memory, in KiB.
const memoryLimit = 512 << 10

// openUnreadStreams opens 500 snapshots of 10 MB with the certificate of a node agent, and reads
// none. The agent may have 100 streams open, and each must be read within 20 s.
func openUnreadStreams(t *testing.T, i *labtest.Installation) {
	for n := range 40 {
		if _, err := registryv1.NewServiceServiceClient(i.Conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
			Metadata: &corev1.ObjectMeta{Name: fmt.Sprintf("large-%d", n), Annotations: map[string]string{"data": strings.Repeat("x", 250<<10)}},
			Spec:     &corev1.ServiceSpec{ClusterIp: "None", Ports: []*corev1.ServicePort{{Port: 80}}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	files := i.Issue("nodeagent/n1", time.Hour)
	conn := i.DialAs(files, identity.Registry, i.RegistryAt())
	before := memory(t, i, "VmHWM")
	for range 500 {
		snapshot(t.Context(), t, conn)
	}
	kittest.Eventually(t, "the refusal of further streams", func() error {
		snapshot(t.Context(), t, conn) // takes the slot that the last attempt has left
		return refusal(t, conn)
	})
	other := i.DialAs(files, identity.Registry, i.RegistryAt())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn.WaitForStateChange(ctx, conn.GetState()) // the registry closes the connection after 40 s
	if ctx.Err() != nil {
		t.Fatal("the connection with unread streams stays open")
	}
	if err := refusal(t, other); err == nil {
		t.Error("the ended streams still count")
	}
	grown := memory(t, i, "VmHWM") - before
	t.Logf("500 unread snapshots: the registry grew by %d KiB", grown)
	if grown > memoryLimit {
		t.Errorf("unread snapshots took %d KiB of the registry's memory", grown)
	}
}

func snapshot(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ServerStreamingClient[registryv1.SnapshotResponse] {
	t.Helper()
	stream, err := registryv1.NewChangeServiceClient(conn).Snapshot(ctx, &registryv1.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// refusal returns nil if the registry refuses another snapshot because the identity has too many.
func refusal(t *testing.T, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := snapshot(ctx, t, conn).Recv()
	if status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "the limit for one identity") {
		return nil
	}
	return fmt.Errorf("a further snapshot is answered, with the error %v", err)
}

// outliveCertificate keeps a connection and a watch open until the operator's certificate expires.
func outliveCertificate(t *testing.T, i *labtest.Installation) {
	conn := i.DialAs(i.Issue("operator", 5*time.Second), identity.Registry, i.RegistryAt())
	namespaces := registryv1.NewNamespaceServiceClient(conn)
	watch, err := namespaces.WatchNamespaces(t.Context(), &registryv1.WatchNamespacesRequest{FieldSelector: "metadata.name=default"})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Recv()
	}
	expired := func(what string, err error) {
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "certificate expired at") {
			t.Errorf("%s: %v", what, err)
		}
	}
	expired("the watch", err)
	_, err = namespaces.CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "late"}}})
	expired("a write", err)
}

// memory returns a size of the registry's process in KiB, by its name in /proc/PID/status: VmRSS is
// the resident memory, VmHWM the largest that it has been.
func memory(t *testing.T, i *labtest.Installation, size string) (kib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.Processes["registry"].PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), size+":")
	if _, err := fmt.Sscanf(line, "%d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
