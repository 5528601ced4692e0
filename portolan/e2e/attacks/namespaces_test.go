package attacks

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// objectsOf returns an object of each kind, in a namespace if the kind has them.
func objectsOf(namespace string) []object.Object {
	meta := func(name string) *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Name: name, Namespace: namespace}
	}
	protocol := corev1.Protocol_PROTOCOL_TCP
	return []object.Object{
		&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "made-in-" + namespace}},
		&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "made-in-" + namespace}},
		&corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "made-in-" + namespace}, Spec: &corev1.RevocationSpec{Identity: "monitor/none-in-" + namespace}},
		&corev1.Token{Metadata: &corev1.ObjectMeta{Name: "made-in-" + namespace}, Spec: &corev1.TokenSpec{Identity: "viewer", Sha256: make([]byte, 32)}},
		&corev1.Secret{Metadata: meta("it"), Data: map[string][]byte{"password": []byte(podPassword)}},
		&corev1.Service{Metadata: meta("web"), Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}},
		newPod("it", namespace, "n1", ""),
		&corev1.Endpoints{Metadata: meta("it")},
		&corev1.EndpointSlice{
			Metadata: meta("it"), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Ports: []*corev1.EndpointPort{{Name: proto.String("http"), Port: proto.Int32(80), Protocol: protocol}},
		},
		&corev1.Lease{Metadata: meta("it"), Spec: &corev1.LeaseSpec{HolderIdentity: "me", LeaseDurationSeconds: 10}},
		&corev1.Event{
			Metadata: meta("it"), Regarding: &corev1.ObjectReference{Kind: "Service", Namespace: namespace, Name: "web"},
			Reason: "Test", Type: corev1.EventType_EVENT_TYPE_NORMAL, ReportingComponent: "test",
		},
	}
}

// call calls a method of a kind with a request that has an object, or the given fields.
func call(t *testing.T, conn grpc.ClientConnInterface, kind *kinds.Kind, verb kinds.Verb, o object.Object, fields map[string]string) error {
	t.Helper()
	method := kind.Method(verb)
	request, response := newMessage(t, method+"Request"), newMessage(t, method+"Response")
	descriptors := request.Descriptor().Fields()
	for i := range descriptors.Len() {
		field := descriptors.Get(i)
		if o != nil && field.Message() != nil && field.Message().FullName() == o.ProtoReflect().Descriptor().FullName() {
			request.Set(field, protoreflect.ValueOfMessage(o.ProtoReflect()))
		}
		if value := fields[string(field.Name())]; value != "" && field.Kind() == protoreflect.StringKind {
			request.Set(field, protoreflect.ValueOfString(value))
		}
	}
	path := fmt.Sprintf("/portolan.registry.v1.%s/%s", kind.ServiceName(), method)
	if verb != kinds.Watch {
		return conn.Invoke(t.Context(), path, request.Interface(), response.Interface())
	}
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request.Interface()); err != nil {
		return err
	}
	return stream.RecvMsg(response.Interface())
}

func newMessage(t *testing.T, name string) protoreflect.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("portolan.registry.v1." + name))
	if err != nil {
		t.Fatal(err)
	}
	return found.New()
}

// verbs returns the verbs of a kind, and whether each of them writes.
func verbs(kind *kinds.Kind) map[kinds.Verb]bool {
	all := map[kinds.Verb]bool{kinds.Get: false, kinds.List: false, kinds.Watch: false, kinds.Create: true, kinds.Update: true, kinds.Delete: true}
	if kind.HasStatus() {
		all[kinds.UpdateStatus] = true
	}
	return all
}

// newNamespaces makes the namespaces a and b with an object of each kind in both.
func newNamespaces(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	for _, namespace := range []string{"a", "b"} {
		ns := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: namespace}}
		if _, err := registryv1.NewNamespaceServiceClient(conn).CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
		objects := objectsOf(namespace)
		if len(objects) != len(kinds.All) {
			t.Fatalf("the test has objects of %d kinds, and there are %d", len(objects), len(kinds.All))
		}
		for _, o := range objects {
			kind, _ := kinds.Named(object.KindOf(o))
			if err := call(t, conn, kind, kinds.Create, o, nil); err != nil {
				t.Fatalf("%s: %v", kind.Name, err)
			}
		}
	}
}

// TestOperatorOfOneNamespaceStaysThere calls every method of every kind with the certificates of an
// operator and a viewer of namespace a, for objects of namespace b and for those without one.
func TestOperatorOfOneNamespaceStaysThere(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	for _, who := range []string{"operator/a", "viewer/a"} {
		conn := i.DialAs(i.Issue(who, time.Hour), identity.Registry, i.RegistryAt())
		for _, o := range objectsOf("b") {
			kind, _ := kinds.Named(object.KindOf(o))
			for verb := range verbs(kind) {
				for _, name := range []string{o.GetMetadata().GetName(), "missing"} {
					fields := map[string]string{"namespace": "b", "name": name}
					if err := call(t, conn, kind, verb, o, fields); status.Code(err) != codes.PermissionDenied {
						t.Errorf("%s: %s %s: %v", who, verb, kind.Name, err)
					}
				}
			}
			if !kind.Namespaced || kind.Private && who == "viewer/a" {
				continue
			}
			found, _, err := client.New(conn).List(t.Context(), kind, client.Query{})
			if err != nil || len(found) == 0 {
				t.Errorf("%s: list of all %s: %d objects, %v", who, kind.Plural, len(found), err)
			}
			for _, o := range found {
				if namespace := o.GetMetadata().GetNamespace(); namespace != "a" {
					t.Errorf("%s: the list of all namespaces has a %s of %q", who, kind.Name, namespace)
				}
			}
		}
		for what, err := range elsewhere(t, conn) {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s: %s: %v", who, what, err)
			}
		}
	}
}

// elsewhere returns the errors of calls to APIs that are not the API of one kind.
func elsewhere(t *testing.T, conn grpc.ClientConnInterface) map[string]error {
	t.Helper()
	log := registryv1.NewChangeServiceClient(conn)
	snapshot, snapshotErr := log.Snapshot(t.Context(), &registryv1.SnapshotRequest{Namespace: "a"})
	export, exportErr := registryv1.NewBackupServiceClient(conn).Export(t.Context(), &registryv1.ExportRequest{})
	_, changesErr := log.ListChanges(t.Context(), &registryv1.ListChangesRequest{})
	_, agentsErr := registryv1.NewAgentServiceClient(conn).ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	_, envErr := registryv1.NewDiscoveryServiceClient(conn).RenderEnv(t.Context(), &registryv1.RenderEnvRequest{Namespace: "b"})
	_, applyErr := registryv1.NewApplyServiceClient(conn).Apply(t.Context(), &registryv1.ApplyRequest{Object: object.Wrap(newPod("it", "b", "n1", ""))})
	_, nodeErr := registryv1.NewApplyServiceClient(conn).Apply(t.Context(), &registryv1.ApplyRequest{Object: object.Wrap(&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}})})
	return map[string]error{
		"a snapshot": firstError(snapshot, snapshotErr), "an export": firstError(export, exportErr), "the log": changesErr, "the agents": agentsErr,
		"the environment of b": envErr, "apply in b": applyErr, "apply of a Node": nodeErr,
	}
}

// TestOperatorOfOneNamespaceWorksThere checks that the limits leave an operator its own namespace,
// and that a viewer writes nothing in it.
func TestOperatorOfOneNamespaceWorksThere(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	operator := i.DialAs(i.Issue("operator/a", time.Hour), identity.Registry, i.RegistryAt())
	viewer := i.DialAs(i.Issue("viewer/a", time.Hour), identity.Registry, i.RegistryAt())
	for _, o := range objectsOf("a") {
		kind, _ := kinds.Named(object.KindOf(o))
		if !kind.Namespaced {
			continue
		}
		fields := map[string]string{"namespace": "a", "name": o.GetMetadata().GetName()}
		for _, verb := range []kinds.Verb{kinds.Get, kinds.List, kinds.Watch} {
			want := codes.OK
			if kind.Private {
				want = codes.PermissionDenied
			}
			if err := call(t, viewer, kind, verb, nil, fields); status.Code(err) != want {
				t.Errorf("the viewer: %s %s: %v, want %s", verb, kind.Name, err, want)
			}
		}
		for verb, writes := range verbs(kind) {
			if err := call(t, viewer, kind, verb, o, fields); writes && status.Code(err) != codes.PermissionDenied {
				t.Errorf("the viewer: %s %s: %v", verb, kind.Name, err)
			}
		}
		want := codes.OK
		if kind.Name == "Lease" {
			want = codes.PermissionDenied
		}
		if err := call(t, operator, kind, kinds.Delete, nil, fields); status.Code(err) != want {
			t.Errorf("the operator deletes a %s: %v, want %s", kind.Name, err, want)
		}
	}
}
