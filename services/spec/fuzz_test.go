package spec_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// decoder is implemented by the generated code of every kind.
type decoder interface {
	object.Object
	UnmarshalVT(data []byte) error
}

// decoded returns an object as a server decodes it: by the generated code, which must agree with
// the library about all known fields. It returns nil if one of them refuses the bytes. The
// generated code also refuses fields of a wrong type, which the library skips, and only the library
// refuses text that is not UTF-8, which services/kit/rpc looks for.
func decoded(t *testing.T, kind *kinds.Kind, data []byte) object.Object {
	t.Helper()
	o, known, want := kind.New().(decoder), kind.New(), kind.New()
	discard := proto.UnmarshalOptions{DiscardUnknown: true}
	if o.UnmarshalVT(data) != nil || discard.Unmarshal(data, want) != nil {
		return nil
	}
	again, err := proto.Marshal(o)
	if err != nil || discard.Unmarshal(again, known) != nil {
		t.Fatalf("%s: %x cannot be encoded: %v", kind.Name, data, err)
	}
	if !proto.Equal(known, want) {
		t.Fatalf("%s: %x is\n%v\nand with the library\n%v", kind.Name, data, known, want)
	}
	return o
}

// maxComplaint is the largest accepted length of a refusal, in bytes. Requests have up to 4 MiB.
const maxComplaint = 64 << 10

// FuzzAdmit takes objects of every kind through the steps of a create and of an update. No input
// may cause a panic or a refusal that is longer than maxComplaint. Defaults are idempotent. An
// admitted object is admitted again as its own update, and stays the same.
func FuzzAdmit(f *testing.F) {
	for i, kind := range kinds.All {
		f.Add(uint8(i), []byte{}, []byte{})
		o := kind.New()
		object.MetaOf(o).Name, object.MetaOf(o).Namespace = "a", "default"
		data, err := proto.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data, data)
	}
	for _, svc := range []*corev1.Service{
		{}, web(), web(headless, byHand), web(ofType(loadBalancer), affinity(5), externalPolicy(local)), web(ofType(externalName)), web(sourceRanges("10.0.0.0/8", "fd00::/8")),
		web(onIP("10.0.0.1", "fd00::1"), policy(prefer)), {Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{}, {}}, ClusterIps: []string{""}}},
	} {
		data, err := proto.Marshal(svc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(slices.Index(kinds.All, kinds.Of(svc))), data, data)
	}
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		kind := kinds.All[int(which)%len(kinds.All)]
		old, updated := decoded(t, kind, first), decoded(t, kind, second)
		if old == nil || updated == nil {
			return
		}
		violations := admit(old, dualStack, spec.Rules{})
		bounded(t, violations)
		once := object.Clone(old)
		if kind.Default(once); !object.Equal(once, old) {
			t.Fatalf("defaults once %v\nand twice %v", old, once)
		}
		kind.Warnings(old)
		if svc, ok := old.(*corev1.Service); ok && len(violations) == 0 {
			validRanges(t, svc)
		}
		if len(violations) == 0 {
			again := object.Clone(old)
			if found := admitUpdate(again, old, dualStack); len(found) > 0 {
				t.Fatalf("admitted, then refused: %s\n%v", found, old)
			}
			if !object.Equal(again, old) {
				t.Fatalf("admitted as %v\nand again as %v", old, again)
			}
		}
		before := object.Clone(old)
		bounded(t, admitUpdate(updated, old, dualStack))
		if kind.HasStatus() {
			status := decoded(t, kind, second)
			kind.PrepareStatusUpdate(status, old)
			bounded(t, kind.ValidateStatus(status, spec.Rules{}))
		}
		if !object.Equal(before, old) {
			t.Fatalf("an update changed the stored object from %v\nto %v", before, old)
		}
	})
}

// validRanges checks that every source range of an admitted service restricts its clients.
func validRanges(t *testing.T, svc *corev1.Service) {
	t.Helper()
	texts := svc.GetSpec().GetLoadBalancerSourceRanges()
	ranges, malformed := spec.LoadBalancerSourceRanges(svc)
	if len(malformed) > 0 || len(ranges) < len(texts) || slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return !p.IsValid() }) {
		t.Fatalf("%q of an admitted service became %v", texts, ranges)
	}
}

// bounded checks the refusal that a client gets.
func bounded(t *testing.T, violations apierr.Violations) {
	t.Helper()
	if len(violations) == 0 {
		return
	}
	text := apierr.Invalid("Object", "default/a", violations).Error()
	if len(text) > maxComplaint {
		t.Fatalf("a refusal of %d bytes: %s", len(text), text[:1000])
	}
	for _, v := range violations {
		if v.Field == "" || v.Reason == "" || v.Message == "" {
			t.Fatalf("a violation without field, reason or message: %+v", v)
		}
	}
}

// FuzzFieldSelector checks that a selector is parsed or refused, that the refusal is short, and
// that "field=value" and "field!=value" are opposites for any value that is escaped.
func FuzzFieldSelector(f *testing.F) {
	for _, text := range []string{"", "metadata.name=a", "spec.nodeName!=n1,status.phase==RUNNING", `metadata.name=a\,b`, "=", ",,", `\`, "nothing=1"} {
		f.Add(text)
	}
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: &corev1.PodSpec{NodeName: "n1"}}
	kind := kinds.Of(pod)
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := kind.ParseFieldSelector(text)
		if err != nil && len(err.Error()) > maxComplaint {
			t.Fatalf("a refusal of %d bytes", len(err.Error()))
		}
		if err == nil && selector.Empty() && !selector.Matches(pod) {
			t.Fatalf("%q is empty and selects not everything", text)
		}
		is, err := kind.ParseFieldSelector("metadata.name=" + escape.Replace(text))
		if err != nil {
			t.Fatalf("%q, escaped: %v", text, err)
		}
		isNot, err := kind.ParseFieldSelector("metadata.name!=" + escape.Replace(text))
		if err != nil {
			t.Fatalf("%q, escaped: %v", text, err)
		}
		if is.Matches(pod) == isNot.Matches(pod) || is.Matches(pod) != (strings.TrimSpace(text) == "a") {
			t.Fatalf("%q: = is %v, != is %v", text, is.Matches(pod), isNot.Matches(pod))
		}
	})
}

// FuzzShortenMessage checks that a text from anywhere becomes one that the registry accepts in a
// condition, and that shortening it again changes nothing.
func FuzzShortenMessage(f *testing.F) {
	f.Add("connection refused", 1)
	f.Add("größer\xff", 300)
	f.Add("\xf0\x9f\x9a", 1)
	f.Fuzz(func(t *testing.T, text string, times int) {
		long := strings.Repeat(text, max(1, times%1000))
		message := spec.ShortenMessage(long)
		if !utf8.ValidString(message) || len(message) > len(long) || spec.ShortenMessage(message) != message {
			t.Fatalf("%q became %q", long, message)
		}
		pod := &corev1.Pod{Status: &corev1.PodStatus{Conditions: []*corev1.Condition{{
			Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_FALSE, Message: message,
		}}}}
		for _, v := range kinds.Of(pod).ValidateStatus(pod, spec.Rules{}) {
			if strings.HasSuffix(v.Field, "message") {
				t.Fatalf("%q is refused: %s", message, v.Message)
			}
		}
	})
}
