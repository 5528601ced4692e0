package index

import (
	"fmt"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// BenchmarkFlip measures a change of one pod of a service, and reading the service.
func BenchmarkFlip(b *testing.B) {
	for _, pods := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			x := New(nil)
			label := map[string]string{"app": "web"}
			batch := []changes.Change{{Kind: "Service", Key: object.Key{Kind: "Service", Namespace: "x", Name: "web"}, New: &corev1.Service{
				Metadata: &corev1.ObjectMeta{Namespace: "x", Name: "web"}, Spec: &corev1.ServiceSpec{Selector: label},
			}}}
			for i := range pods {
				pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "x", Name: fmt.Sprintf("p-%04d", i), Labels: label}}
				batch = append(batch, changes.Change{Kind: "Pod", Key: object.KeyOf(pod), New: pod})
			}
			x.Apply(batch, 1)
			b.ReportAllocs()
			for b.Loop() {
				x.Apply(batch[1+pods/2:2+pods/2], 2)
				if len(x.Read(object.Name{Namespace: "x", Name: "web"}).Pods) != pods {
					b.Fatal("a pod is missing")
				}
			}
		})
	}
}
