package attacks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

const podPassword = "correct-horse-battery-staple"

// newSecretPod returns a pod with the password in every field that may hold one.
func newSecretPod(name, node string) *corev1.Pod {
	pod := newPod(name, "default", node, "")
	pod.Metadata.Annotations = map[string]string{"example.com/token": podPassword}
	pod.Spec.Containers[0].Env = []*corev1.EnvVar{{Name: "PASSWORD", Value: podPassword}}
	pod.Spec.Containers[0].Command = []string{"server", "--password", podPassword}
	return pod
}

// TestAgentReadsPodsOfItsOwnNodeOnly reads with the certificate of n1's agent, in every way that the
// registry and NATS offer, and looks for a password of a pod on n2.
func TestAgentReadsPodsOfItsOwnNodeOnly(t *testing.T) {
	i := install(t)
	files := i.Issue("nodeagent/n1", time.Hour)
	heard := listen(t, i, files)
	for _, pod := range []*corev1.Pod{newPod("public", "default", "n2", ""), newSecretPod("theirs", "n2"), newSecretPod("own", "n1")} {
		if err := create(t, i.Conn, pod); err != nil {
			t.Fatal(err)
		}
	}
	marker := newPod("marker", "default", "n2", "")
	if err := create(t, i.Conn, marker); err != nil {
		t.Fatal(err)
	}
	conn := i.DialAs(files, identity.Registry, i.RegistryAt())
	pods := registryv1.NewPodServiceClient(conn)
	for name, want := range map[string]codes.Code{"theirs": codes.NotFound, "public": codes.NotFound, "own": codes.OK} {
		if _, err := pods.GetPod(t.Context(), &registryv1.GetPodRequest{Name: name}); status.Code(err) != want {
			t.Errorf("get of pod %s: %v, want %s", name, err, want)
		}
	}
	kind, _ := kinds.Named("Pod")
	for _, verb := range []kinds.Verb{kinds.List, kinds.Watch} {
		if err := call(t, conn, kind, verb, nil, nil); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s of pods: %v", verb, err)
		}
	}
	onlyOwn(t, "the snapshot", snapshotObjects(t, conn))
	onlyOwn(t, "the log", changesOf(t, conn))

	var all []*nats.Msg
	kittest.Eventually(t, "the change of the last pod", func() error {
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		if !slices.ContainsFunc(all, func(m *nats.Msg) bool { return bytes.Contains(m.Data, []byte("marker")) }) {
			return fmt.Errorf("%d messages, not that one", len(all))
		}
		return nil
	})
	private := 0
	for _, m := range all {
		if bytes.Contains(m.Data, []byte(podPassword)) {
			t.Errorf("NATS: %s has the password", m.Subject)
		}
		if m.Header.Get("Portolan-Node") == "n2" {
			private++
		}
	}
	if private == 0 {
		t.Error("NATS: no message tells of the pod on n2, so the test has heard nothing")
	}
}

// listen subscribes to everything that the agent with the certificate in files may hear.
func listen(t *testing.T, i *labtest.Installation, files identity.Files) <-chan *nats.Msg {
	t.Helper()
	nc, err := nats.Connect(i.NATS(), nats.Secure(i.Source(files).TLS(identity.NATS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	heard := make(chan *nats.Msg, 4096)
	if _, err := nc.ChanSubscribe("portolan.rep.>", heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return heard
}

// snapshotObjects returns all objects of a snapshot without a filter.
func snapshotObjects(t *testing.T, conn grpc.ClientConnInterface) []object.Object {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := registryv1.NewChangeServiceClient(conn).Snapshot(ctx, &registryv1.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []object.Object
	for {
		batch, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, envelope := range batch.GetObjects() {
			all = append(all, object.Unwrap(envelope))
		}
		if batch.GetComplete() {
			return all
		}
	}
}

// changesOf returns all objects in the log. It checks that the log has every revision.
func changesOf(t *testing.T, conn grpc.ClientConnInterface) []object.Object {
	t.Helper()
	var all []object.Object
	for last := uint64(0); ; {
		answer, err := registryv1.NewChangeServiceClient(conn).ListChanges(t.Context(), &registryv1.ListChangesRequest{AfterRevision: last})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.GetChanges()) == 0 {
			return all
		}
		for _, change := range answer.GetChanges() {
			if change.GetRevision() != last+1 {
				t.Fatalf("the log has revision %d after %d", change.GetRevision(), last)
			}
			last = change.GetRevision()
			if o := object.Unwrap(change.GetObject()); o != nil {
				all = append(all, o)
			}
		}
	}
}

// onlyOwn checks that objects have nothing of another node than n1, and the pod of n1.
func onlyOwn(t *testing.T, where string, objects []object.Object) {
	t.Helper()
	own := false
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Pod:
			own = own || o.GetMetadata().GetName() == "own"
			if node := o.GetSpec().GetNodeName(); node != "n1" {
				t.Errorf("%s has pod %s of node %s", where, o.GetMetadata().GetName(), node)
			}
		case *corev1.Node:
			if name := o.GetMetadata().GetName(); name != "n1" {
				t.Errorf("%s has Node %s", where, name)
			}
		case *corev1.Service, *corev1.EndpointSlice:
		default:
			t.Errorf("%s has a %s", where, object.KindOf(o))
		}
	}
	if !own {
		t.Errorf("%s lacks the pod of the agent's own node: %d objects", where, len(objects))
	}
}
