package openapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"portolan.dev/kubeapi/internal/resource"
)

// TestModelsOfAllKinds converts an empty object of each kind by its schema.
func TestModelsOfAllKinds(t *testing.T) {
	models, err := Models()
	if err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resource.All {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(r.Kind)
		u.SetName("x")
		if _, err := converter.ObjectToTyped(u); err != nil {
			t.Errorf("%s: %v", r.Kind, err)
		}
		u.Object["misspelt"] = "x"
		if _, err := converter.ObjectToTyped(u); err == nil {
			t.Errorf("%s: a field that it does not have was taken", r.Kind)
		}
	}
}

func BenchmarkModels(b *testing.B) {
	for b.Loop() {
		if _, err := Models(); err != nil {
			b.Fatal(err)
		}
	}
}
