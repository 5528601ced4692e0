package rpc_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/rpc"
)

// FuzzText decodes any request as the server does. The check for text that is not UTF-8 and for
// malformed unknown fields must agree with the library, which refuses both when it decodes. The
// refusal is short.
func FuzzText(f *testing.F) {
	for _, pod := range []*corev1.Pod{
		{}, {Metadata: &corev1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "größer"}}}, {Metadata: &corev1.ObjectMeta{Name: bad}},
		{Metadata: &corev1.ObjectMeta{Labels: map[string]string{bad: bad}}}, {Spec: &corev1.PodSpec{Containers: []*corev1.Container{{Command: []string{"x", bad}}}}},
	} {
		data, err := pod.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &corev1.Pod{}
		if pod.UnmarshalVT(data) != nil {
			return
		}
		// Encoded again, because a later value of a field replaces an earlier one, which is checked by
		// the library only.
		encoded, err := pod.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		refusal := rpc.CheckUTF8(pod)
		if err := proto.Unmarshal(encoded, &corev1.Pod{}); (err == nil) != (refusal == nil) {
			t.Fatalf("%x: %v, and the library says %v", encoded, refusal, err)
		}
		if refusal != nil && len(refusal.Error()) > 64<<10 {
			t.Fatalf("a refusal of %d bytes", len(refusal.Error()))
		}
	})
}
