package ownership

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/kube"
)

func codecOf(t testing.TB, kind schema.GroupVersionKind) *kube.Codec {
	t.Helper()
	for _, codec := range resource.Codecs {
		if codec.GroupVersionKind == kind {
			return codec
		}
	}
	t.Fatalf("no codec of %s", kind)
	return nil
}

// drawConfiguration draws a service with some labels and ports.
func drawConfiguration(t *rapid.T) *unstructured.Unstructured {
	value := rapid.SampledFrom([]string{"1", "2"})
	labels, ports := map[string]any{}, []any{}
	for key, text := range rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3).Draw(t, "labels") {
		labels[key] = text
	}
	for _, port := range rapid.SliceOfNDistinct(rapid.Int64Range(80, 82), 0, 3, rapid.ID).Draw(t, "ports") {
		ports = append(ports, map[string]any{"port": port, "protocol": "TCP", "name": value.Draw(t, "name")})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web", "labels": labels}, "spec": map[string]any{"ports": ports},
	}}
}

// owned returns the fields of an object that a manager owns.
func owned(t *rapid.T, o kube.Object, manager string) *fieldpath.Set {
	fields := fieldpath.NewSet()
	for _, entry := range o.GetManagedFields() {
		if entry.Manager == manager {
			if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return fields
}

// values returns the values of the fields of a service by their paths.
func values(t *rapid.T, o any) map[string]string {
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var service struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			Ports []struct {
				Port int
				Name string
			}
		}
	}
	if err := json.Unmarshal(text, &service); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for key, value := range service.Metadata.Labels {
		all[".metadata.labels"], all[".metadata.labels."+key] = "", value // an empty map has owners too
	}
	for _, port := range service.Spec.Ports {
		item := fmt.Sprintf(".spec.ports[port=%d,protocol=\"TCP\"]", port.Port)
		all[".spec.ports"], all[item], all[item+".port"], all[item+".protocol"], all[item+".name"] = "", "", fmt.Sprint(port.Port), "TCP", port.Name
	}
	return all
}

// apply applies a configuration as the server does: managers own only fields that the object has.
func (tr *Tracker) apply(t *rapid.T, stored kube.Object, configuration *unstructured.Unstructured, manager string, force bool) (kube.Object, error) {
	after, err := tr.Apply(stored, configuration, manager, force)
	if err != nil {
		return nil, err
	}
	owners, err := tr.Present(after.GetManagedFields(), after)
	if err != nil {
		t.Fatal(err)
	}
	after.SetManagedFields(owners)
	return after, nil
}

// TestManagersApply has managers apply one object: a manager owns the fields that it has applied; without force, an apply
// is a conflict or changes no field of another manager; managers own only fields that the object has; and the same
// again changes nothing.
func TestManagersApply(t *testing.T) {
	tr, err := For(codecOf(t, schema.GroupVersionKind{Version: "v1", Kind: "Service"}), "")
	if err != nil {
		t.Fatal(err)
	}
	managers := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		o := tr.Empty()
		for range rapid.IntRange(1, 5).Draw(t, "applications") {
			manager, force := rapid.SampledFrom(managers).Draw(t, "manager"), rapid.Bool().Draw(t, "force")
			configuration := drawConfiguration(t)
			after, err := tr.apply(t, o, configuration, manager, force)
			if err != nil && !force && apierrors.IsConflict(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			was, is := values(t, o), values(t, after)
			owns := map[string]bool{}
			for path := range owned(t, after, manager).All() {
				owns[path.String()] = true
			}
			for path, value := range values(t, configuration) {
				if value != "" && (is[path] != value || !owns[path]) {
					t.Fatalf("%s of %s is %q and owned: %v, want %q", path, manager, is[path], owns[path], value)
				}
			}
			for _, other := range managers {
				for path := range owned(t, o, other).All() {
					if had, has := was[path.String()], is[path.String()]; other != manager && !force && had != has {
						t.Fatalf("%v of %s was %q and is %q", path, other, had, has)
					}
				}
				for path := range owned(t, after, other).All() {
					if _, exists := is[path.String()]; !exists {
						t.Fatalf("%s owns %v, which is not there", other, path)
					}
				}
			}
			again, err := tr.apply(t, after, configuration, manager, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range managers {
				if !owned(t, again, other).Equals(owned(t, after, other)) {
					t.Fatalf("the same again: %s owns %v, and owned %v", other, owned(t, again, other), owned(t, after, other))
				}
			}
			o = after
		}
	})
}
