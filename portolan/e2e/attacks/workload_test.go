package attacks

import (
	"context"
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
	"portolan.dev/services/object"
)

// newPod returns a pod on a node that a workload owns, or an operator's if owner is empty.
func newPod(name, namespace, node, owner string) *corev1.Pod {
	pod := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:     &corev1.PodSpec{NodeName: node, Containers: []*corev1.Container{{Name: "main"}}},
	}
	if owner != "" {
		pod.Metadata.Annotations = map[string]string{object.AnnotationWorkload: owner}
	}
	return pod
}

func create(t *testing.T, conn grpc.ClientConnInterface, pod *corev1.Pod) error {
	t.Helper()
	_, err := registryv1.NewPodServiceClient(conn).CreatePod(t.Context(), &registryv1.CreatePodRequest{Pod: pod})
	return err
}

// TestWorkloadsCertificateWritesItsOwnPodsOnly tries calls of an operator with a workload's certificate.
func TestWorkloadsCertificateWritesItsOwnPodsOnly(t *testing.T) {
	i := install(t)
	const own = "workload/n1/default"
	conn := i.DialAs(i.Issue(own, time.Hour), identity.Registry, i.RegistryAt())
	pods := registryv1.NewPodServiceClient(conn)
	if _, err := registryv1.NewNamespaceServiceClient(i.Conn).CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{
		Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		create(t, i.Conn, newPod("operators", "default", "n1", "")), create(t, i.Conn, newPod("secret", "shop", "n1", "")),
		create(t, conn, newPod("mine", "default", "n1", own)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	taken := newPod("operators", "default", "n1", own)
	attempts := map[string]func(context.Context) error{
		"a pod of another node":      func(context.Context) error { return create(t, conn, newPod("a", "default", "n2", own)) },
		"a pod of another namespace": func(context.Context) error { return create(t, conn, newPod("a", "shop", "n1", own)) },
		"a pod of another workload":  func(context.Context) error { return create(t, conn, newPod("a", "default", "n1", "workload/n1")) },
		"a pod of nobody":            func(context.Context) error { return create(t, conn, newPod("a", "default", "n1", "")) },
		"the operator's pod": func(ctx context.Context) error {
			_, err := pods.DeletePod(ctx, &registryv1.DeletePodRequest{Name: "operators"})
			return err
		},
		"the operator's pod as its own": func(ctx context.Context) error {
			_, err := pods.UpdatePod(ctx, &registryv1.UpdatePodRequest{Pod: taken})
			return err
		},
		"a read of another namespace": func(ctx context.Context) error {
			_, err := pods.GetPod(ctx, &registryv1.GetPodRequest{Name: "secret", Namespace: "shop"})
			return err
		},
		"the environment of another namespace": func(ctx context.Context) error {
			_, err := registryv1.NewDiscoveryServiceClient(conn).RenderEnv(ctx, &registryv1.RenderEnvRequest{Namespace: "shop"})
			return err
		},
		"a Service": func(ctx context.Context) error {
			_, err := registryv1.NewServiceServiceClient(conn).CreateService(ctx, &registryv1.CreateServiceRequest{Service: &corev1.Service{}})
			return err
		},
		"an EndpointSlice": func(ctx context.Context) error {
			_, err := registryv1.NewEndpointSliceServiceClient(conn).CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{}})
			return err
		},
		"a Node": func(ctx context.Context) error {
			_, err := registryv1.NewNodeServiceClient(conn).UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: &corev1.Node{}})
			return err
		},
		"a snapshot": func(ctx context.Context) error {
			stream, err := registryv1.NewChangeServiceClient(conn).Snapshot(ctx, &registryv1.SnapshotRequest{})
			return firstError(stream, err)
		},
		"an export": func(ctx context.Context) error {
			stream, err := registryv1.NewBackupServiceClient(conn).Export(ctx, &registryv1.ExportRequest{})
			return firstError(stream, err)
		},
		"the log": func(ctx context.Context) error {
			_, err := registryv1.NewChangeServiceClient(conn).ListChanges(ctx, &registryv1.ListChangesRequest{})
			return err
		},
	}
	for what, attempt := range attempts {
		if err := attempt(t.Context()); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	seesOnly(t, pods, "mine")
	for _, name := range []string{"operators", "missing"} {
		_, err := pods.GetPod(t.Context(), &registryv1.GetPodRequest{Name: name})
		if text := status.Convert(err).Message(); status.Code(err) != codes.NotFound || strings.ReplaceAll(text, name, "X") != `Pod "default/X" not found` {
			t.Errorf("a read of pod %s: %v", name, err)
		}
	}
	stolen := newPod("mine", "default", "n1", own)
	stolen.Status = &corev1.PodStatus{PodIp: i.Nodes[1].Addresses[0].String()}
	if _, err := pods.UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: stolen}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the address of another node: %v", err)
	}
	if _, err := pods.DeletePod(t.Context(), &registryv1.DeletePodRequest{Name: "mine"}); err != nil {
		t.Error(err)
	}
}

// firstError returns the error of a stream's first message.
func firstError[M any](stream grpc.ServerStreamingClient[M], err error) error {
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// seesOnly checks that a list and a watch of all namespaces have one pod.
func seesOnly(t *testing.T, pods registryv1.PodServiceClient, name string) {
	t.Helper()
	list, err := pods.ListPods(t.Context(), &registryv1.ListPodsRequest{})
	if err != nil || len(list.GetPods()) != 1 || list.GetPods()[0].GetMetadata().GetName() != name {
		t.Errorf("list: %v, %v", list, err)
	}
	stream, err := pods.WatchPods(t.Context(), &registryv1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range batch.GetChanges() {
			if got := change.GetPod().GetMetadata().GetName(); got != name {
				t.Errorf("the watch has pod %q", got)
			}
		}
		if batch.GetSynced() {
			return
		}
	}
}

// TestProgramsHaveNoCredential runs a program with a workload's certificate and looks at its
// environment.
func TestProgramsHaveNoCredential(t *testing.T) {
	i := install(t)
	files := i.Issue("workload/n1/default", time.Hour)
	command := labtest.Command(t, "portolan", []string{
		"--server", i.RegistryAt().String(), "run", "--nameserver", "none", "--pod-ip", i.Nodes[0].Addresses[0].String(), "--", "env",
	})
	command.Env = append(command.Environ(), "PORTOLAN_TLS_CERT="+files.Cert, "PORTOLAN_TLS_KEY="+files.Key, "PORTOLAN_TLS_CA="+files.CA, "PORTOLAN_CERTS="+i.Certs)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := string(out); !strings.Contains(text, "POD_IP=") || strings.Contains(text, "PORTOLAN_CERTS") || strings.Contains(text, i.Certs) {
		t.Errorf("the program's environment:\n%s", text)
	}
}
