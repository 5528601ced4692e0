package registry_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// sampleOf returns a valid object of a kind. A kind without rules needs a name only.
func sampleOf(kind *kinds.Kind) object.Object {
	if sample := samples()[kind.Name]; sample != nil {
		return sample
	}
	o := kind.New()
	meta := object.MetaOf(o)
	meta.Name, meta.Labels = "sample", map[string]string{"app": "a"}
	return o
}

// samples returns valid objects of the kinds that have rules.
func samples() map[string]object.Object {
	meta := func() *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Name: "sample", Labels: map[string]string{"app": "a"}}
	}
	web := web("sample")
	web.Metadata = meta()
	return map[string]object.Object{
		"Namespace": &corev1.Namespace{Metadata: meta()},
		"Node":      &corev1.Node{Metadata: meta()},
		"Pod":       &corev1.Pod{Metadata: meta(), Spec: &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", Image: "i"}}}},
		"Service":   web,
		"EndpointSlice": &corev1.EndpointSlice{Metadata: meta(), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Endpoints: []*corev1.Endpoint{{Addresses: []string{"192.0.2.1"}}}},
		"Endpoints": &corev1.Endpoints{Metadata: meta(), Subsets: []*corev1.EndpointSubset{{
			Addresses: []*corev1.EndpointAddress{{Ip: "192.0.2.1"}}, Ports: []*corev1.EndpointSubsetPort{{Port: 80}},
		}}},
		"Lease":      &corev1.Lease{Metadata: meta(), Spec: &corev1.LeaseSpec{HolderIdentity: "me", LeaseDurationSeconds: 15}},
		"Event":      &corev1.Event{Metadata: meta(), Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n1"}, Reason: "Tested", Message: "m", ReportingComponent: "test"},
		"Token":      &corev1.Token{Metadata: meta(), Spec: &corev1.TokenSpec{Identity: "viewer", Sha256: make([]byte, 32)}},
		"Revocation": &corev1.Revocation{Metadata: meta(), Spec: &corev1.RevocationSpec{Identity: "nodeagent/n1"}},
	}
}

// caller calls the methods of a kind's service by name, like a client without generated code.
type caller struct {
	t       *testing.T
	conn    *grpc.ClientConn
	kind    *kinds.Kind
	service protoreflect.ServiceDescriptor
}

func newCaller(t *testing.T, conn *grpc.ClientConn, kind *kinds.Kind) *caller {
	t.Helper()
	name := protoreflect.FullName("portolan.registry.v1." + kind.Name + "Service")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	service, _ := found.(protoreflect.ServiceDescriptor)
	return &caller{t: t, conn: conn, kind: kind, service: service}
}

// method returns the method that begins with the verb. It returns a status method only if the verb
// asks for it.
func (c *caller) method(verb string) protoreflect.MethodDescriptor {
	for i := range c.service.Methods().Len() {
		method := c.service.Methods().Get(i)
		name := string(method.Name())
		if strings.HasPrefix(name, verb) && strings.HasSuffix(name, "Status") == strings.HasSuffix(verb, "Status") {
			return method
		}
	}
	c.t.Fatalf("%s has no method %s", c.service.FullName(), verb)
	return nil
}

func message(t *testing.T, descriptor protoreflect.MessageDescriptor) protoreflect.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New()
}

// request builds the request of a method from an object or from the values of fields.
func (c *caller) request(method protoreflect.MethodDescriptor, o object.Object, set map[protoreflect.Name]any) proto.Message {
	req := message(c.t, method.Input())
	fields := method.Input().Fields()
	if o != nil {
		req.Set(fields.ByNumber(1), protoreflect.ValueOfMessage(o.ProtoReflect()))
	}
	for name, value := range set {
		req.Set(fields.ByName(name), protoreflect.ValueOf(value))
	}
	return req.Interface()
}

func (c *caller) call(verb string, o object.Object, set map[protoreflect.Name]any) (protoreflect.Message, error) {
	method := c.method(verb)
	answer := message(c.t, method.Output())
	err := c.conn.Invoke(within(c.t), path(method), c.request(method, o, set), answer.Interface())
	return answer, err
}

func path(method protoreflect.MethodDescriptor) string {
	return "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
}

// object calls a method that returns an object.
func (c *caller) object(verb string, o object.Object, set map[protoreflect.Name]any) object.Object {
	c.t.Helper()
	answer, err := c.call(verb, o, set)
	if err != nil {
		c.t.Fatalf("%s %s: %v", verb, c.kind.Name, err)
	}
	got, _ := answer.Get(answer.Descriptor().Fields().ByNumber(1)).Message().Interface().(object.Object)
	return got
}

// watched returns the first object of a watch.
func (c *caller) watched(ctx context.Context, set map[protoreflect.Name]any) object.Object {
	c.t.Helper()
	method := c.method("Watch")
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path(method))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := stream.SendMsg(c.request(method, nil, set)); err != nil {
		c.t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil && err != io.EOF { //nolint:errorlint // as documented
		c.t.Fatal(err)
	}
	for {
		answer := message(c.t, method.Output())
		if err := stream.RecvMsg(answer.Interface()); err != nil {
			c.t.Fatalf("watch %s: %v", c.kind.Name, err)
		}
		changes := answer.Get(method.Output().Fields().ByName("changes")).List()
		if changes.Len() > 0 {
			change := changes.Get(0).Message()
			got, _ := change.Get(change.Descriptor().Fields().ByNumber(2)).Message().Interface().(object.Object)
			return got
		}
	}
}

// TestEveryKind calls all methods of every kind.
func TestEveryKind(t *testing.T) {
	_, r := run(t)
	for _, kind := range kinds.All {
		t.Run(kind.Name, func(t *testing.T) {
			c := newCaller(t, r.ClientConn, kind)
			sample := sampleOf(kind)
			named := map[protoreflect.Name]any{"name": "sample"}
			created := c.object("Create", sample, nil)
			if created.GetMetadata().GetUid() == "" || created.GetMetadata().GetResourceVersion() == 0 {
				t.Fatalf("created: %v", created)
			}
			if kind.Name != "Event" { // events are counted instead
				if _, err := c.call("Create", sample, nil); !apierr.IsAlreadyExists(err) {
					t.Errorf("create again: %v", err)
				}
			}
			if got := c.object("Get", nil, named); kind.Name != "Event" && !object.Equal(got, created) {
				t.Errorf("get:\n%v\nwant\n%v", got, created)
			}
			list, err := c.call("List", nil, map[protoreflect.Name]any{"label_selector": "app=a", "field_selector": "metadata.name=sample"})
			if err != nil || list.Get(list.Descriptor().Fields().ByNumber(1)).List().Len() != 1 {
				t.Errorf("list = %v, %v", list, err)
			}
			if got := c.watched(within(t), map[protoreflect.Name]any{"label_selector": "app=a"}); got.GetMetadata().GetName() != "sample" {
				t.Errorf("watch: %v", got)
			}
			changed := object.Clone(c.object("Get", nil, named))
			changed.GetMetadata().Labels["more"] = "yes"
			if got := c.object("Update", changed, nil); got.GetMetadata().GetLabels()["more"] != "yes" {
				t.Errorf("update: %v", got)
			}
			if kind.HasStatus() {
				if got := c.object("Update"+kind.Name+"Status", sample, nil); got.GetMetadata().GetLabels()["more"] != "yes" {
					t.Errorf("the status update changed the labels: %v", got)
				}
			}
			if _, err := c.call("Create", nil, nil); len(apierr.ViolationsOf(err)) != 1 {
				t.Errorf("create without an object: %v", err)
			}
			if _, err := c.call("Get", nil, nil); len(apierr.ViolationsOf(err)) != 1 {
				t.Errorf("get without a name: %v", err)
			}
			c.object("Delete", nil, named)
			if kind.Name == "Namespace" {
				return // removed when it is empty, see TestNamespaceEmptiesFirst
			}
			if _, err := c.call("Get", nil, named); !apierr.IsNotFound(err) {
				t.Errorf("get after delete: %v", err)
			}
		})
	}
}

// TestApplyEveryKind applies each sample twice.
func TestApplyEveryKind(t *testing.T) {
	_, r := run(t)
	for _, kind := range kinds.All {
		t.Run(kind.Name, func(t *testing.T) {
			want := registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED
			for range 2 {
				answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(sampleOf(kind))})
				if err != nil {
					t.Fatal(err)
				}
				if answer.GetOutcome() != want {
					t.Errorf("outcome = %v, want %v", answer.GetOutcome(), want)
				}
				want = registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
			}
		})
	}
}
