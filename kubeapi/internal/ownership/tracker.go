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

// status is the name of the subresource. Its fields are tracked separately.
const status = "status"

// Tracker tracks the owners of the fields of one type, or of its status.
type Tracker struct {
	codec  *kube.Codec
	types  managedfields.TypeConverter
	fields *managedfields.FieldManager
}

// converter returns the schemas of all types, which take some MB of memory.
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

// For returns the tracker for writes of a codec's objects by a subresource. An empty subresource means the
// objects themselves.
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
	// The subresource writes only the status, and other requests write everything else.
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

// Empty returns an object without any fields. New objects are compared with it.
func (t *Tracker) Empty() kube.Object {
	o := t.codec.New()
	o.GetObjectKind().SetGroupVersionKind(t.codec.GroupVersionKind)
	return o
}

// Update returns the owners of the fields of updated after a manager has replaced the stored object by it.
// updated has the managed fields that the client sent.
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
