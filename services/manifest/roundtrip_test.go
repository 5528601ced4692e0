package manifest_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
	"portolan.dev/services/terminal"
)

// fill sets every field of a message to a value of the right type that need not be valid. A codec
// that lacks a new field therefore fails the test as soon as the field is in the API.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.ContainingOneof() != nil && !field.ContainingOneof().IsSynthetic() && field.ContainingOneof().Fields().Get(0) != field:
		case field.IsMap():
			m.Mutable(field).Map().Set(protoreflect.ValueOfString("k").MapKey(), scalar(field.MapValue()))
		case field.IsList() && field.Message() != nil:
			fill(m.Mutable(field).List().AppendMutable().Message(), depth+1)
		case field.IsList():
			m.Mutable(field).List().Append(scalar(field))
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp":
			at := timestamppb.New(time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC))
			m.Set(field, protoreflect.ValueOfMessage(at.ProtoReflect()))
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, scalar(field))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x" + string(field.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 0xff})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(field.Number()))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1 << 60)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 << 63)
	}
	panic("no value for " + field.FullName())
}

// filled returns an object of a kind with every field set. It leaves out fields that the kind's
// conditions lack in Kubernetes, and the managed fields, which the registry keeps and manifests do
// not show.
func filled(kind *kinds.Kind) object.Object {
	o := kind.New()
	fill(o.ProtoReflect(), 0)
	object.MetaOf(o).ManagedFields = nil
	var conditions []*corev1.Condition
	switch o := o.(type) {
	case *corev1.Service:
		conditions = o.Status.Conditions
	case *corev1.Node:
		conditions = o.Status.Conditions
	case *corev1.Namespace:
		conditions = o.Status.Conditions
	}
	for _, condition := range conditions {
		if kind.Name != "Node" {
			condition.LastProbeTime = nil
		}
		if kind.Name != "Service" {
			condition.ObservedGeneration = 0
		}
	}
	return o
}

func TestEveryFieldSurvives(t *testing.T) {
	for _, kind := range kinds.All {
		for _, format := range []manifest.Format{manifest.YAML, manifest.JSON} {
			t.Run(kind.Name+" as "+string(format), func(t *testing.T) {
				o := filled(kind)
				text := encode(t, format, o)
				documents := decode(t, text)
				if len(documents) != 1 || len(documents[0].Warnings) != 0 {
					t.Fatalf("%d documents: %v", len(documents), documents)
				}
				if back := documents[0].Object; !object.Equal(back, o) {
					t.Errorf("\nfrom %v\nto   %v\nby\n%s", o, back, text)
				}
			})
		}
	}
}

// TestProbesSurvive covers the other handlers of probes in their oneof.
func TestProbesSurvive(t *testing.T) {
	for _, probe := range []*corev1.Probe{
		{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: portNamed("http")}}},
		{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{Path: "/healthz", Port: portNamed("http"), Scheme: "HTTPS", HttpHeaders: []*corev1.HTTPHeader{{Name: "A", Value: "b"}}}}, PeriodSeconds: 3},
		{Handler: &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: 9, Service: proto.String("s")}}},
		{Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: []string{"check", "-v", "a b"}}}, PeriodSeconds: 5},
		{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: 30}}},
		{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: 30}}, TimeoutSeconds: 1, PeriodSeconds: 10},
	} {
		pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p"}, Spec: &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", ReadinessProbe: probe}}}}
		if back := decode(t, encode(t, manifest.YAML, pod))[0].Object; !object.Equal(back, pod) {
			t.Errorf("from %v to %v", pod, back)
		}
	}
}

func portNamed(name string) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: name}}
}

func TestEncodeText(t *testing.T) {
	svc := decode(t, service)[0].Object
	svc.(*corev1.Service).Spec.Scheduler = corev1.Scheduler_SCHEDULER_LC
	namespace := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "yes"}}
	const wantYAML = `apiVersion: v1
kind: Service
metadata:
  annotations:
    portolan.dev/scheduler: lc
  name: web
spec:
  ports:
  - port: 80
---
apiVersion: v1
kind: Namespace
metadata:
  name: "yes"
`
	if got := encode(t, manifest.YAML, svc, namespace); got != wantYAML {
		t.Errorf("got\n%s\nwant\n%s", got, wantYAML)
	}
	const wantJSON = `{
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "yes"
    }
}
`
	if got := encode(t, manifest.JSON, namespace); got != wantJSON {
		t.Errorf("got\n%s\nwant\n%s", got, wantJSON)
	}
	both := encode(t, manifest.JSON, svc, namespace)
	if got := summarise(decode(t, both)); !slices.Equal(got, []string{"Service/web@1", "Namespace/yes@18"}) {
		t.Errorf("got %q of\n%s", got, both)
	}
}

// TestLists checks that a List stays a List, also with one object or none.
func TestLists(t *testing.T) {
	objects := []object.Object{
		&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "a"}},
		&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "b"}},
	}
	for n := range len(objects) + 1 {
		for _, format := range []manifest.Format{manifest.YAML, manifest.JSON} {
			var out bytes.Buffer
			if err := manifest.NewEncoder(&out, format).EncodeList(objects[:n]); err != nil {
				t.Fatal(err)
			}
			documents := decode(t, out.String())
			if !strings.Contains(out.String(), "List") || len(documents) != n {
				t.Fatalf("%d objects as %s are read as %d:\n%s", n, format, len(documents), out.String())
			}
			for i, document := range documents {
				if !object.Equal(document.Object, objects[i]) {
					t.Errorf("%s\nhas %v, want %v", out.String(), document.Object, objects[i])
				}
			}
		}
	}
}

func TestOwnAnnotations(t *testing.T) {
	documents := decode(t, `
apiVersion: v1
kind: Service
metadata:
  name: web
  annotations: {portolan.dev/scheduler: sh, portolan.dev/scheduler-flags: "sh-port, sh-fallback", portolan.dev/drain-timeout: "60", other: kept}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {portolan.dev/weight: "5"}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, annotations: {portolan.dev/weight: 3}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, annotations: {portolan.dev/weight: "10.0.0.2=0, 10.0.0.1=9"}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}, {addresses: [10.0.0.3]}]
`)
	svc, pod := documents[0].Object.(*corev1.Service), documents[1].Object.(*corev1.Pod)
	if s := svc.Spec; s.Scheduler != corev1.Scheduler_SCHEDULER_SH || !slices.Equal(s.SchedulerFlags, []string{"sh-port", "sh-fallback"}) || s.GetDrainTimeoutSeconds() != 60 {
		t.Errorf("service: %v", s)
	}
	if a := svc.Metadata.Annotations; len(a) != 1 || a["other"] != "kept" {
		t.Errorf("annotations: %v", a)
	}
	if pod.Spec.GetWeight() != 5 || pod.Metadata.Annotations != nil {
		t.Errorf("pod: %v", pod)
	}
	all, some := documents[2].Object.(*corev1.EndpointSlice), documents[3].Object.(*corev1.EndpointSlice)
	if all.Endpoints[0].GetWeight() != 3 || all.Endpoints[1].GetWeight() != 3 {
		t.Errorf("slice: %v", all)
	}
	if e := some.Endpoints; e[0].GetWeight() != 9 || e[1].Weight == nil || *e[1].Weight != 0 || e[2].Weight != nil {
		t.Errorf("slice: %v", some)
	}
	for _, document := range documents {
		text := encode(t, manifest.YAML, document.Object)
		if back := decode(t, text)[0].Object; !object.Equal(back, document.Object) {
			t.Errorf("from %v to %v", document.Object, back)
		}
		if strings.Count(text, "portolan.dev/") != strings.Count(text, "portolan.dev/scheduler")+strings.Count(text, "portolan.dev/drain")+strings.Count(text, "portolan.dev/weight") {
			t.Errorf("unexpected annotations:\n%s", text)
		}
	}
}

func TestOwnAnnotationsMistaken(t *testing.T) {
	const meta = "metadata: {name: x, annotations: {portolan.dev/"
	const podOfC = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}\n"
	const slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.1]}]\n"
	for _, test := range []struct{ text, want string }{
		{"apiVersion: v1\nkind: Service\n" + meta + "scheduler: wrr}}\n", "3:59: metadata.annotations[portolan.dev/scheduler]: unsupported value \"wrr\": supported are rr, lc, dh, sh, sed, nq, mh"},
		{"apiVersion: v1\nkind: Service\n" + meta + "drain-timeout: 5m}}\n", "3:63: metadata.annotations[portolan.dev/drain-timeout]: invalid value \"5m\": must be a whole number between 0 and 2147483647"},
		{"apiVersion: v1\nkind: Pod\n" + meta + "weight: '65536'}}\n", "3:56: metadata.annotations[portolan.dev/weight]: invalid value \"65536\": must be a whole number between 0 and 65535"},
		{slice + meta + "weight: '-1'}}\n", "5:56: metadata.annotations[portolan.dev/weight]: invalid value \"-1\""},
		{slice + meta + "weight: 10.0.0.1=x}}\n", "5:56: metadata.annotations[portolan.dev/weight]: invalid value \"x\""},
		{slice + meta + "weight: 10.0.0.9=1}}\n", "5:56: metadata.annotations[portolan.dev/weight]: invalid value \"10.0.0.9=1\": names an address that no endpoint has"},
		{podOfC + meta + "readiness-ttl: d=5}}\n", "4:63: metadata.annotations[portolan.dev/readiness-ttl]: invalid value \"d=5\": names a container that the pod does not have"},
		{podOfC + meta + "readiness-ttl: c=30s}}\n", "4:63: metadata.annotations[portolan.dev/readiness-ttl]: invalid value \"30s\": must be a whole number"},
		{strings.Replace(podOfC, "name: c", "name: c, readinessProbe: {exec: {command: [x]}}", 1) + meta + "readiness-ttl: c=5}}\n", "4:63: metadata.annotations[portolan.dev/readiness-ttl]: invalid value \"c=5\": names a container with another readiness probe"},
		{"apiVersion: coordination.k8s.io/v1\nkind: Lease\n" + meta + "epoch: none}}\n", "3:55: metadata.annotations[portolan.dev/epoch]: invalid value \"none\""},
	} {
		if got := problems(t, test.text); len(got) != 1 || !strings.HasPrefix(got[0], "web.yaml:"+test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestHostileText checks that a document with text that terminals obey is the same object after it
// was printed and read again, and that nothing of the text is obeyed.
func TestHostileText(t *testing.T) {
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p", Namespace: "default", Annotations: map[string]string{
		"note": "\x1b]0;title\a\u202e\u009b2J\r\U000e0041", "plain": "größer",
	}}}
	for _, format := range []manifest.Format{manifest.YAML, manifest.JSON} {
		var out bytes.Buffer
		if err := manifest.NewEncoder(terminal.NewWriter(&out), format).Encode(pod); err != nil {
			t.Fatal(err)
		}
		if !terminal.IsSafe(out.Bytes()) {
			t.Errorf("%s: %q", format, out.String())
		}
		documents, err := manifest.Decode(&out, "pod")
		if err != nil || len(documents) != 1 {
			t.Fatalf("%s: %v", format, err)
		}
		if got, want := documents[0].Object.GetMetadata().GetAnnotations(), pod.GetMetadata().GetAnnotations(); !maps.Equal(got, want) {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// TestSecretData reads the two forms of a Secret's data, and writes one of them.
func TestSecretData(t *testing.T) {
	documents := decode(t, `
apiVersion: v1
kind: Secret
metadata: {name: web}
type: example.com/any
data: {a: AP8=, b: b2xk}
stringData: {b: new, c: "1"}
`)
	secret, _ := documents[0].Object.(*corev1.Secret)
	if len(documents[0].Warnings) != 0 || len(secret.GetData()) != 3 || !bytes.Equal(secret.GetData()["a"], []byte{0, 0xff}) || string(secret.GetData()["b"]) != "new" || string(secret.GetData()["c"]) != "1" {
		t.Errorf("read %v with warnings %q", secret, documents[0].Warnings)
	}
	if text := encode(t, manifest.YAML, secret); !strings.Contains(text, "  a: AP8=\n  b: bmV3\n") || strings.Contains(text, "stringData") || !strings.Contains(text, "type: example.com/any\n") {
		t.Errorf("written as\n%s", text)
	}
}
