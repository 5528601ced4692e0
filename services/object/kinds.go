package object

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// Kind describes a kind of objects.
type Kind struct {
	Name       string   // "Service"
	Plural     string   // "services"
	Short      []string // "svc"
	Namespaced bool
	HasStatus  bool          // status is written separately from the other fields
	New        func() Object // returns an empty object
}

// Kinds lists all kinds in the order in which objects of several kinds should be applied: a kind
// comes after the kinds that it refers to.
var Kinds = []Kind{
	{Name: "Namespace", Plural: "namespaces", Short: []string{"ns"}, HasStatus: true, New: func() Object { return &corev1.Namespace{} }},
	{Name: "Node", Plural: "nodes", Short: []string{"no"}, HasStatus: true, New: func() Object { return &corev1.Node{} }},
	{Name: "Service", Plural: "services", Short: []string{"svc"}, Namespaced: true, HasStatus: true, New: func() Object { return &corev1.Service{} }},
	{Name: "Pod", Plural: "pods", Short: []string{"po"}, Namespaced: true, HasStatus: true, New: func() Object { return &corev1.Pod{} }},
	{Name: "Endpoints", Plural: "endpoints", Short: []string{"ep"}, Namespaced: true, New: func() Object { return &corev1.Endpoints{} }},
	{Name: "EndpointSlice", Plural: "endpointslices", Short: []string{"eps"}, Namespaced: true, New: func() Object { return &corev1.EndpointSlice{} }},
	{Name: "Lease", Plural: "leases", Namespaced: true, New: func() Object { return &corev1.Lease{} }},
	{Name: "Event", Plural: "events", Short: []string{"ev"}, Namespaced: true, New: func() Object { return &corev1.Event{} }},
}

// KindNamed returns the kind with a singular, plural or short name. It ignores case.
func KindNamed(name string) (Kind, bool) {
	kind, ok := kindsByName[strings.ToLower(name)]
	return kind, ok
}

var kindsByName = indexKinds()

func indexKinds() map[string]Kind {
	index := make(map[string]Kind, 4*len(Kinds))
	for _, kind := range Kinds {
		index[strings.ToLower(kind.Name)] = kind
		index[kind.Plural] = kind
		for _, short := range kind.Short {
			index[short] = kind
		}
	}
	return index
}
