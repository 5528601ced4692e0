package manifest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// TestPlainCodec writes and reads objects of kinds that Kubernetes has as if it lacked them.
func TestPlainCodec(t *testing.T) {
	created := timestamppb.New(time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC))
	for _, o := range []object.Object{
		&corev1.Lease{
			Metadata: &corev1.ObjectMeta{Name: "l", Namespace: "default", ResourceVersion: 1 << 63, CreationTimestamp: created, Labels: map[string]string{"a": "b"}},
			Spec:     &corev1.LeaseSpec{HolderIdentity: "me", LeaseDurationSeconds: 15, RenewTime: created, Epoch: 1 << 63},
		},
		&corev1.Pod{
			Metadata: &corev1.ObjectMeta{Name: "p"},
			Spec: &corev1.PodSpec{Containers: []*corev1.Container{{
				Name: "c", Command: []string{"sh"}, Ports: []*corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.Protocol_PROTOCOL_UDP}},
			}}},
		},
	} {
		c := plain(kinds.Of(o))
		tree, err := c.encode(o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := marshalJSON(tree)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(`"apiVersion": "portolan.dev/v1"`)) {
			t.Errorf("no apiVersion:\n%s", text)
		}
		back, warnings, problems := c.decode(parsed(t, string(text)))
		if len(warnings)+len(problems) > 0 || !object.Equal(back, o) {
			t.Errorf("\nfrom %v\nto   %v\nby\n%s\n%v %v", o, back, text, warnings, problems)
		}
	}
}

func TestPlainCodecFindsMistakes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"metadata: {nam: x}\n", "1:12: metadata.nam: unknown field; did you mean name?"},
		{"metadata: {name: x, resourceVersion: a}\n", "1:38: metadata.resourceVersion: invalid value \"a\""},
		{"spec: {holderIdentiy: me}\n", "1:8: spec.holderIdentiy: unknown field; did you mean holderIdentity?"},
		{"spec: {holderIdentity: a, holderIdentity: b}\n", "1:27: spec.holderIdentity: is given twice, first on line 1"},
		{"spec: [1]\n", "1:7: spec: must be an object, not a list"},
		{"spec: {leaseDurationSeconds: soon}\n", "1:1: "},
	} {
		_, _, problems := plain(kinds.Of(&corev1.Lease{})).decode(parsed(t, test.text))
		if len(problems) != 1 || !strings.HasPrefix(strings.TrimPrefix(problems[0].Error(), ":"), test.want) {
			t.Errorf("%q: %v, want %q", test.text, problems, test.want)
		}
	}
	_, warnings, problems := plain(kinds.Of(&corev1.Lease{})).decode(parsed(t, "metadata: {name: x, selfLink: /x}\n"))
	if len(problems) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "metadata.selfLink") {
		t.Errorf("a field that is lost: %v %v", warnings, problems)
	}
}

func parsed(t *testing.T, text string) *node {
	t.Helper()
	roots, problem := parse([]byte(text))
	if problem != nil || len(roots) != 1 {
		t.Fatalf("parse: %v", problem)
	}
	return roots[0]
}
