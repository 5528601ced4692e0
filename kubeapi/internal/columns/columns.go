package columns

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"portolan.dev/services/kube"
)

// printer has the columns of a kind, and a function that returns the cells of one object.
type printer struct {
	columns []metav1.TableColumnDefinition
	cells   func(o kube.Object) []any
}

// Definitions returns the columns of a kind.
func Definitions(kind schema.GroupVersionKind) []metav1.TableColumnDefinition {
	return printerOf(kind).columns
}

// Cells returns the cells of an object, one for each column of its kind.
func Cells(kind schema.GroupVersionKind, o kube.Object) []any { return printerOf(kind).cells(o) }

func printerOf(kind schema.GroupVersionKind) printer {
	if known, ok := printers[kind.Kind]; ok {
		return known
	}
	return plain
}

// printers are the printers by kind. Events have the same columns in both groups.
var printers = map[string]printer{
	"Pod": pods, "Service": services, "Endpoints": endpoints, "EndpointSlice": endpointSlices, "Node": nodes, "Namespace": namespaces,
	"Lease": leases, "Event": events,
}

// plain is the printer of kinds without columns of their own.
var plain = printer{
	columns: []metav1.TableColumnDefinition{name, age},
	cells:   func(o kube.Object) []any { return []any{o.GetName(), Age(o.GetCreationTimestamp())} },
}

var (
	name = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "Name must be unique within a namespace."}
	age  = text("Age", "Time since the object was created.")
)

func text(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// wide returns a column that kubectl shows with -o wide only.
func wide(name, description string) metav1.TableColumnDefinition {
	column := text(name, description)
	column.Priority = 1
	return column
}

// Age returns the time since a moment in the form of kubectl.
func Age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}

func orNone(s string) string { return cmp.Or(s, "<none>") }
