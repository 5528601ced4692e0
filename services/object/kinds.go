package object

import (
	"strings"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

// Kind is what is known of a kind without looking at its objects.
type Kind struct {
	Name       string   // "Service"
	Plural     string   // "services"
	Short      []string // "svc"
	Namespaced bool
	HasStatus  bool          // status is written separately from the rest
	New        func() Object // an empty object
}

// Kinds lists every kind, in the order in which a manifest of all of them is best applied: what others refer to comes first.
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

// KindNamed finds a kind by its name, singular, plural or short name, in any case.
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
