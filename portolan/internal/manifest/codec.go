package manifest

import (
	"reflect"
	"strings"

	kcorev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// codec converts objects of one kind between Kubernetes' types and core.v1.
type codec struct {
	new  func() any
	in   func(r *reader, typed any) object.Object
	out  func(o object.Object) any
	mend func(n *node) // converts the tree of an older version to the current one
}

// codecFor makes a codec of functions with concrete types.
func codecFor[K any, O object.Object](apiVersion, kind string, in func(*reader, *K) O, out func(O, *K)) codec {
	typeMeta := metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	return codec{
		new: func() any { return new(K) },
		in:  func(r *reader, typed any) object.Object { return in(r, typed.(*K)) },
		out: func(o object.Object) any {
			typed := new(K)
			reflect.ValueOf(typed).Elem().FieldByName("TypeMeta").Set(reflect.ValueOf(typeMeta))
			out(o.(O), typed)
			return typed
		},
	}
}

const (
	discovery    = "discovery.k8s.io/v1"
	discoveryOld = "discovery.k8s.io/v1beta1"
)

// codecs are the codecs for reading, by apiVersion and kind.
var codecs = map[string]codec{
	"v1 Service":   codecFor("v1", "Service", (*reader).service, writeService),
	"v1 Endpoints": codecFor("v1", "Endpoints", (*reader).endpoints, writeEndpoints),
	"v1 Pod":       codecFor("v1", "Pod", (*reader).pod, writePod),
	"v1 Node":      codecFor("v1", "Node", (*reader).node, writeNode),
	"v1 Namespace": codecFor("v1", "Namespace", (*reader).namespace, writeNamespace),
	"v1 Event":     codecFor("v1", "Event", (*reader).event, writeEvent),

	discovery + " EndpointSlice":    codecFor(discovery, "EndpointSlice", (*reader).endpointSlice, writeEndpointSlice),
	discoveryOld + " EndpointSlice": oldEndpointSlice(codecFor(discovery, "EndpointSlice", (*reader).endpointSlice, writeEndpointSlice)),
	"coordination.k8s.io/v1 Lease":  codecFor("coordination.k8s.io/v1", "Lease", (*reader).lease, writeLease),
}

// written are the codecs for writing, by kind.
var written = map[string]codec{
	"Service": codecs["v1 Service"], "Endpoints": codecs["v1 Endpoints"], "Pod": codecs["v1 Pod"], "Node": codecs["v1 Node"],
	"Namespace": codecs["v1 Namespace"], "Event": codecs["v1 Event"],
	"EndpointSlice": codecs[discovery+" EndpointSlice"], "Lease": codecs["coordination.k8s.io/v1 Lease"],
}

func typeOf(typed any) reflect.Type { return reflect.TypeOf(typed).Elem() }

// oldEndpointSlice returns a codec that reads the version of EndpointSlice with a topology in
// endpoints.
func oldEndpointSlice(present codec) codec {
	present.mend = func(n *node) {
		for i := range n.pairs {
			if n.pairs[i].key == "apiVersion" {
				n.pairs[i].value = n.pairs[i].value.renamed(discovery)
			}
		}
		endpoints := n.get("endpoints")
		if endpoints == nil {
			return
		}
		for _, endpoint := range endpoints.items {
			mendTopology(endpoint)
		}
	}
	return present
}

// mendTopology moves entries of an endpoint's topology to the fields that exist for them today.
func mendTopology(endpoint *node) {
	for i := range endpoint.pairs {
		if endpoint.pairs[i].key != "topology" {
			continue
		}
		endpoint.pairs[i].key = "deprecatedTopology"
		topology := endpoint.pairs[i].value
		var rest []pair
		for _, p := range topology.pairs {
			switch field := topologyFields[p.key]; {
			case field == "":
				rest = append(rest, p)
			case endpoint.get(field) == nil:
				p.key = field
				endpoint.pairs = append(endpoint.pairs, p)
			}
		}
		topology.pairs = rest
		return
	}
}

var topologyFields = map[string]string{
	kcorev1.LabelHostname: "nodeName", kcorev1.LabelTopologyZone: "zone",
}

// reader converts from Kubernetes' types and collects the values that cannot be converted.
type reader struct{ found apierr.Violations }

// readEnum converts a word to an enum value.
func readEnum[E spec.Enum, W ~string](r *reader, path string, word W) E {
	if word == "" {
		return 0
	}
	value, ok := spec.ParseEnum[E](string(word))
	if !ok {
		r.unsupported(path, string(word), spec.EnumNames[E]())
	}
	return value
}

func (r *reader) unsupported(path, word string, known []string) {
	r.found.Add(path, apierr.ReasonNotSupported, "unsupported value %q: supported are %s", word, strings.Join(known, ", "))
}

func (r *reader) invalid(path, value, why string) {
	r.found.Add(path, apierr.ReasonInvalid, "invalid value %q: %s", value, why)
}

func each[A, B any](from []A, convert func(int, A) B) []B {
	if len(from) == 0 {
		return nil
	}
	to := make([]B, len(from))
	for i := range from {
		to[i] = convert(i, from[i])
	}
	return to
}
