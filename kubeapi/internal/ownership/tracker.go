package ownership

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"portolan.dev/kubeapi/internal/openapi"
	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/kube"
)

// status is the name of the subresource whose fields have owners of their own.
const status = "status"

// Tracker tracks the owners of the fields of one type, or of its status.
type Tracker struct {
	codec  *kube.Codec
	types  managedfields.TypeConverter
	fields *managedfields.FieldManager
}

// converter returns the schemas of all types. They take some MB.
var converter = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	models, err := openapi.Models()
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(models, false)
})

// scheme has the types of all codecs.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, codec := range resource.Codecs {
		s.AddKnownTypeWithName(codec.GroupVersionKind, codec.New())
	}
	return s
})

// trackers are the trackers that have been used, by their codec and subresource.
var trackers sync.Map

// For returns the tracker for writes of objects of a codec by a subresource; empty: of the objects
// themselves.
func For(codec *kube.Codec, subresource string) (*Tracker, error) {
	type key struct {
		*kube.Codec
		subresource string
	}
	if known, ok := trackers.Load(key{codec, subresource}); ok {
		return known.(*Tracker), nil
	}
	t, err := newTracker(codec, subresource)
	if err != nil {
		return nil, fmt.Errorf("the schemas of %s: %w", codec.GroupVersionKind, err)
	}
	trackers.Store(key{codec, subresource}, t)
	return t, nil
}

func newTracker(codec *kube.Codec, subresource string) (*Tracker, error) {
	types, err := converter()
	if err != nil {
		return nil, err
	}
	version := codec.GroupVersionKind.GroupVersion()
	// The status is written by its subresource, and everything else by none.
	others := fieldpath.NewSet(fieldpath.MakePathOrDie(status))
	if subresource == status {
		others = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
	}
	ignored := map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(others)}
	fields, err := managedfields.NewDefaultFieldManager(types, scheme(), scheme(), scheme(), codec.GroupVersionKind, version, subresource, ignored)
	if err != nil {
		return nil, err
	}
	return &Tracker{codec, types, fields}, nil
}

// Empty returns an object without any fields, which an object to create is compared with.
func (t *Tracker) Empty() kube.Object {
	o := t.codec.New()
	o.GetObjectKind().SetGroupVersionKind(t.codec.GroupVersionKind)
	return o
}

// Update returns the owners of the fields of an object after a manager has replaced the stored one by it.
// The managed fields of updated are those that the client sent.
func (t *Tracker) Update(stored, updated kube.Object, manager string) ([]metav1.ManagedFieldsEntry, error) {
	had := stored.GetManagedFields() // Update removes them
	tracked, err := t.fields.Update(stored, updated, manager)
	if err != nil {
		return had, err
	}
	return tracked.(metav1.Object).GetManagedFields(), nil
}

// Apply returns the stored object after a manager has applied a configuration, with its owners. Without
// force, the error is a conflict if another manager owns a field with another value.
func (t *Tracker) Apply(stored kube.Object, configuration *unstructured.Unstructured, manager string, force bool) (kube.Object, error) {
	merged, err := t.fields.Apply(stored, configuration, manager, force)
	if err != nil {
		return nil, err
	}
	o, ok := merged.(kube.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", merged)
	}
	return o, nil
}

// Present returns entries without the fields that an object does not have.
func (t *Tracker) Present(entries []metav1.ManagedFieldsEntry, in kube.Object) ([]metav1.ManagedFieldsEntry, error) {
	value, err := t.types.ObjectToTyped(in, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	present, err := value.ToFieldSet()
	if err != nil {
		return nil, err
	}
	present = present.EnsureNamedFieldsAreMembers(value.Schema(), value.TypeRef())
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, err
		}
		if fields = fields.Intersection(present); fields.Empty() {
			continue
		}
		text, err := fields.ToJSON()
		if err != nil {
			return nil, err
		}
		entry.FieldsV1 = &metav1.FieldsV1{}
		entry.FieldsV1.SetRawBytes(text)
		kept = append(kept, entry)
	}
	return kept, nil
}
