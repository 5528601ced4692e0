package kube_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	kubev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// generator draws objects of the contract with any fields set. The values need not be valid. A codec
// that lacks a new field therefore fails the property as soon as the field is in the contract.
type generator struct {
	*rapid.T
	unit    int64 // resolution of the times of Kubernetes' type, in nanoseconds
	strings int   // number of texts drawn
}

// message sets fields of a message.
func (g *generator) message(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		oneof := field.ContainingOneof()
		switch {
		case field.FullName() == "portolan.core.v1.ObjectMeta.managed_fields": // the registry keeps it
		case oneof != nil && !oneof.IsSynthetic() && m.WhichOneof(oneof) != nil:
		case !rapid.Bool().Draw(g.T, string(field.Name())):
		case field.IsMap():
			for range rapid.IntRange(1, 3).Draw(g.T, "n") {
				m.Mutable(field).Map().Set(protoreflect.ValueOfString(g.text()).MapKey(), g.scalar(field.MapValue()))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range rapid.IntRange(1, 3).Draw(g.T, "n") {
				if field.Message() != nil {
					g.message(list.AppendMutable().Message())
				} else {
					list.Append(g.scalar(field))
				}
			}
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp":
			nanos := rapid.Int64Range(1, 1e18/g.unit).Draw(g.T, "time") * g.unit
			m.Set(field, protoreflect.ValueOfMessage((&timestamppb.Timestamp{Seconds: nanos / 1e9, Nanos: int32(nanos % 1e9)}).ProtoReflect()))
		case field.Message() != nil:
			g.message(m.Mutable(field).Message())
		default:
			m.Set(field, g.scalar(field))
		}
	}
}

// text returns a text that no other field has.
func (g *generator) text() string {
	g.strings++
	return fmt.Sprintf("%s%d", rapid.StringMatching(`[a-z./]{0,5}`).Draw(g.T, "text"), g.strings)
}

func (g *generator) scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(g.text()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(1, field.Enum().Values().Len()-1).Draw(g.T, "enum")))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32Range(1, 1<<31-1).Draw(g.T, "int32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64Range(1, 1<<53).Draw(g.T, "int64"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32Range(0, 65535).Draw(g.T, "uint32"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64Min(1).Draw(g.T, "uint64"))
	}
	panic("no value for " + field.FullName())
}

// asKubernetesHas removes the fields of conditions that Kubernetes' conditions of the kind lack. It also
// removes weights of endpoints without addresses, and ttl checks of containers without names, because their
// annotations identify the endpoint by its address and the container by its name.
func asKubernetesHas(o object.Object) {
	var conditions []*corev1.Condition
	switch o := o.(type) {
	case *corev1.Service:
		conditions = o.GetStatus().GetConditions()
	case *corev1.Node:
		conditions = o.GetStatus().GetConditions()
	case *corev1.Namespace:
		conditions = o.GetStatus().GetConditions()
	case *corev1.Pod:
		for _, container := range slices.Concat(o.GetSpec().GetContainers(), o.GetSpec().GetInitContainers()) {
			if container.GetName() == "" && container.GetReadinessProbe().GetTtl() != nil {
				container.ReadinessProbe.Handler = nil
			}
		}
	case *corev1.EndpointSlice:
		for _, endpoint := range o.GetEndpoints() {
			if len(endpoint.GetAddresses()) == 0 {
				endpoint.Weight = nil
			}
		}
	}
	for _, condition := range conditions {
		if object.KindOf(o) != "Node" {
			condition.LastProbeTime = nil
		}
		if object.KindOf(o) != "Service" {
			condition.ObservedGeneration = 0
		}
	}
}

// prune removes empty messages, which Kubernetes does not distinguish from absent ones.
func prune(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			for i := range v.List().Len() {
				prune(v.List().Get(i).Message())
			}
		case !field.IsList() && field.Message() != nil:
			prune(v.Message())
			if proto.Size(v.Message().Interface()) == 0 {
				m.Clear(field)
			}
		}
		return true
	})
}

// all are the codecs of all kinds.
var all = []*kube.Codec{
	kube.Namespace, kube.Node, kube.Service, kube.Pod, kube.Endpoints, kube.EndpointSlice, kube.Lease, kube.Secret,
	kube.Event, kube.EventWithSource, kube.NewEvent,
}

var messages = &kube.Messages{
	Supported: func(words []string) string { return "supported " + strings.Join(words, " ") }, Version: "must be a number",
}

// encodings encode an object and decode it into another one.
var encodings = map[string]func(t *rapid.T, from, to kube.Object){
	"json": func(t *rapid.T, from, to kube.Object) {
		text, err := json.Marshal(from)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	},
	"protobuf": func(t *rapid.T, from, to kube.Object) {
		bytes, err := from.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err == nil {
			err = to.(interface{ Unmarshal(data []byte) error }).Unmarshal(bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	},
}

func TestNothingIsLost(t *testing.T) {
	for _, codec := range all {
		for name, travel := range encodings {
			t.Run(fmt.Sprintf("%s as %s", codec.GroupVersionKind, name), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					g := generator{T: rt, unit: 1e9}
					if codec.Kind.Name == "Lease" {
						g.unit = 1e3
					}
					o := codec.Kind.New()
					g.message(o.ProtoReflect())
					object.MetaOf(o).CreationTimestamp, object.MetaOf(o).DeletionTimestamp = nil, nil // whole seconds only, unlike the other times of a Lease
					asKubernetesHas(o)
					sent, received := codec.Write(object.Clone(o)), codec.New()
					travel(rt, sent, received)
					back, violations := codec.Read(received, messages)
					if len(violations) != 0 {
						rt.Fatal(violations)
					}
					if lost := codec.Lost(received, back); len(lost) != 0 {
						rt.Errorf("lost %v", lost)
					}
					prune(o.ProtoReflect())
					prune(back.ProtoReflect())
					if !object.Equal(back, o) {
						rt.Errorf("\nfrom %v\nto   %v", o, back)
					}
				})
			})
		}
	}
}

func TestReadLeavesItsArgumentAlone(t *testing.T) {
	codec := kube.Service
	from := &kubev1.Service{}
	from.Annotations = map[string]string{kube.AnnotationScheduler: "rr", "other": "x"}
	if _, violations := codec.Read(from, messages); len(violations) != 0 || len(from.Annotations) != 2 {
		t.Errorf("%v, %v", from.Annotations, violations)
	}
}

func TestMistakes(t *testing.T) {
	codec := kube.Service
	from := &kubev1.Service{Spec: kubev1.ServiceSpec{Type: "Cluster", Ports: []kubev1.ServicePort{{Protocol: "tcp"}}}}
	from.Name, from.ResourceVersion = "web", "x"
	from.Annotations = map[string]string{kube.AnnotationDrainTimeout: "soon"}
	_, violations := codec.Read(from, messages)
	err := apierr.Invalid("Service", "web", violations)
	for _, want := range []string{"spec.type", "spec.ports[0].protocol", "supported TCP UDP SCTP", "metadata.resourceVersion", "metadata.annotations[portolan.dev/drain-timeout]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

func TestLost(t *testing.T) {
	codec := kube.Pod
	from := &kubev1.Pod{Spec: kubev1.PodSpec{
		Volumes: []kubev1.Volume{{Name: "v"}}, Containers: []kubev1.Container{{Name: "c", WorkingDir: "/", LivenessProbe: &kubev1.Probe{}}},
	}}
	to, violations := codec.Read(from, messages)
	if len(violations) != 0 {
		t.Fatal(violations)
	}
	if got := fmt.Sprint(codec.Lost(from, to)); got != "[spec.containers[*].workingDir spec.volumes]" {
		t.Error(got)
	}
}

// TestAnnotationsAreNotLost reads an annotation of Portolan that no field of the written object has.
func TestAnnotationsAreNotLost(t *testing.T) {
	from := kube.EndpointSlice.New()
	from.SetAnnotations(map[string]string{kube.AnnotationWeight: "3"})
	to, violations := kube.EndpointSlice.Read(from, messages)
	if lost := kube.EndpointSlice.Lost(from, to); len(violations) != 0 || len(lost) != 0 {
		t.Errorf("%v, lost %v", violations, lost)
	}
}
