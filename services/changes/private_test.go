package changes

import (
	"crypto/sha256"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// TestPrivateObjects checks which objects are not on the stream, and that the contents of such a change
// cannot be found out by guessing them and comparing digests.
func TestPrivateObjects(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "x"}, Spec: &corev1.PodSpec{Containers: []*corev1.Container{{}}}}
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		o       object.Object
		private bool
	}{
		"secret":                {&corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "x"}}, true}, // a log may have the identity only
		"service":               {&corev1.Service{Metadata: &corev1.ObjectMeta{Name: "x"}}, false},
		"pod":                   {pod(func(*corev1.Pod) {}), false},
		"pod with environment":  {pod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = []*corev1.EnvVar{{Name: "A"}} }), true},
		"pod with annotation":   {pod(func(p *corev1.Pod) { p.Metadata.Annotations = map[string]string{"a": "b"} }), true},
		"pod with its workload": {pod(func(p *corev1.Pod) { p.Metadata.Annotations = map[string]string{object.AnnotationWorkload: "b"} }), false},
	} {
		if got := isPrivate(test.o); got != test.private {
			t.Errorf("%s: private %v", name, got)
		}
		payload := []byte("contents")
		d := newDigester()
		found, ok := d.of(LoggedChange{Change: &registryv1.Change{Revision: 7, Object: object.Wrap(test.o)}, Payload: payload})
		guessed := d.whole(7, subjectOf(object.KeyOf(test.o)), payload)
		if !ok || (found.whole == guessed) == test.private || test.private != (found.whole == [sha256.Size]byte{}) {
			t.Errorf("%s: a digest of the contents is there: %v", name, found.whole == guessed)
		}
	}
}
