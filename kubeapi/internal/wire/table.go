package wire

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/columns"
	"portolan.dev/services/kube"
)

// Rows tells which part of its object each row of a Table has besides the cells.
type Rows string

// The contents of rows. The default is RowsMetadata.
const (
	RowsNone     Rows = "None"
	RowsMetadata Rows = "Metadata"
	RowsObject   Rows = "Object"
)

// Object returns an object in the form of the format: a Table, its metadata only, or the object itself.
func (f *Format) Object(kind schema.GroupVersionKind, o kube.Object, rows Rows) (runtime.Object, error) {
	switch f.As {
	case Table:
		return f.table(kind, []kube.Object{o}, metav1.ListMeta{ResourceVersion: o.GetResourceVersion()}, rows), nil
	case Partial:
		partial := meta.AsPartialObjectMetadata(o)
		partial.SetGroupVersionKind(f.metaVersion().WithKind(string(Partial)))
		return partial, nil
	}
	return o, nil
}

// List returns a list in the form of the format. empty is an empty list of the type of the objects. It is
// nil if Portolan lacks the kind.
func (f *Format) List(kind schema.GroupVersionKind, objects []kube.Object, list metav1.ListMeta, empty runtime.Object, rows Rows) (runtime.Object, error) {
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	switch {
	case f.As == Table:
		return f.table(kind, objects, list, rows), nil
	case f.As == PartialList || empty == nil:
		partial := &metav1.PartialObjectMetadataList{ListMeta: list, Items: make([]metav1.PartialObjectMetadata, len(objects))}
		for i, o := range objects {
			partial.Items[i] = *meta.AsPartialObjectMetadata(o)
			partial.Items[i].SetGroupVersionKind(f.metaVersion().WithKind(string(Partial)))
		}
		if f.As == PartialList {
			listKind = f.metaVersion().WithKind(string(PartialList))
		}
		partial.SetGroupVersionKind(listKind)
		return partial, nil
	}
	items := make([]runtime.Object, len(objects))
	for i, o := range objects {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // the list names it
		items[i] = o
	}
	if err := meta.SetList(empty, items); err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(empty)
	if err != nil {
		return nil, err
	}
	about.SetResourceVersion(list.ResourceVersion)
	about.SetContinue(list.Continue)
	about.SetRemainingItemCount(list.RemainingItemCount)
	empty.GetObjectKind().SetGroupVersionKind(listKind)
	return empty, nil
}

// metaVersion returns the version of meta.k8s.io of the format.
func (f *Format) metaVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: metav1.GroupName, Version: f.Version}
}

func (f *Format) table(kind schema.GroupVersionKind, objects []kube.Object, list metav1.ListMeta, rows Rows) *metav1.Table {
	table := &metav1.Table{ListMeta: list, ColumnDefinitions: columns.Definitions(kind), Rows: make([]metav1.TableRow, len(objects))}
	table.SetGroupVersionKind(f.metaVersion().WithKind(string(Table)))
	for i, o := range objects {
		table.Rows[i].Cells = columns.Cells(kind, o)
		switch rows {
		case RowsNone:
		case RowsObject:
			table.Rows[i].Object.Object = o
		default:
			partial := meta.AsPartialObjectMetadata(o)
			partial.SetGroupVersionKind(f.metaVersion().WithKind(string(Partial)))
			table.Rows[i].Object.Object = partial
		}
	}
	return table
}

// Bookmark returns the Table of a bookmark of a watch: one row without cells.
func (f *Format) Bookmark(about metav1.ObjectMeta) *metav1.Table {
	partial := &metav1.PartialObjectMetadata{ObjectMeta: about}
	partial.SetGroupVersionKind(f.metaVersion().WithKind(string(Partial)))
	row := metav1.TableRow{Cells: []any{}}
	row.Object.Object = partial
	table := &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: about.ResourceVersion}, Rows: []metav1.TableRow{row}}
	table.SetGroupVersionKind(f.metaVersion().WithKind(string(Table)))
	return table
}
