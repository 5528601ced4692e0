package kubecheck

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"portolan.dev/services/manifest/kube"
)

// TestValuesAsKubernetes checks that the handwritten types accept the same texts as the types of
// Kubernetes, and encode them alike.
func TestValuesAsKubernetes(t *testing.T) {
	pieces := []string{
		"2006-01-02T15:04:05", ".000000", ".5", "Z", "+02:00", "0", "1", "12", "-", "+", ".", "m", "u", "n", "k", "M", "Mi", "Gi", "e3", "E-3", "E", "i", "http", " ",
	}
	rapid.Check(t, func(t *rapid.T) {
		data := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "text") {
			data = strconv.Quote(data)
		}
		for _, pair := range [][2]any{
			{&kube.Time{}, &metav1.Time{}}, {&kube.MicroTime{}, &metav1.MicroTime{}}, {&kube.IntOrString{}, &intstr.IntOrString{}},
		} {
			ours, ourOK := unmarshal(data, pair[0])
			theirs, theirOK := unmarshal(data, pair[1])
			if ours != theirs || ourOK != theirOK {
				t.Errorf("%T of %s: %s %v, Kubernetes has %s %v", pair[0], data, ours, ourOK, theirs, theirOK)
			}
		}
		// A quantity is written as it was read, not in Kubernetes' canonical form. Kubernetes also
		// takes a unit or a sign without a number.
		_, ourOK := unmarshal(data, new(kube.Quantity))
		if _, theirOK := unmarshal(data, &resource.Quantity{}); ourOK && !theirOK {
			t.Errorf("quantity %s: Kubernetes does not take it", data)
		}
	})
}

func TestQuantities(t *testing.T) {
	number := rapid.StringMatching(`[+-]?[0-9]{1,4}(\.[0-9]{0,3})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		data := strconv.Quote(number.Draw(t, "quantity"))
		_, ourOK := unmarshal(data, new(kube.Quantity))
		if _, theirOK := unmarshal(data, &resource.Quantity{}); !ourOK || !theirOK {
			t.Errorf("quantity %s: %v, Kubernetes says %v", data, ourOK, theirOK)
		}
	})
}
