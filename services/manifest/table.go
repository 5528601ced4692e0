package manifest

import (
	"portolan.dev/services/kinds"
)

const (
	discovery    = "discovery.k8s.io/v1"
	discoveryOld = "discovery.k8s.io/v1beta1"
)

// kubernetesCodecs lists the codecs of the kinds that Kubernetes has. The other kinds have the codec
// that plain returns.
var kubernetesCodecs = []codec{
	kubernetes("v1", (*reader).namespace, writeNamespace),
	kubernetes("v1", (*reader).node, writeNode),
	kubernetes("v1", (*reader).service, writeService),
	kubernetes("v1", (*reader).pod, writePod),
	kubernetes("v1", (*reader).endpoints, writeEndpoints),
	kubernetes(discovery, (*reader).endpointSlice, writeEndpointSlice).alsoReads(discoveryOld, upgradeEndpointSlice),
	kubernetes("coordination.k8s.io/v1", (*reader).lease, writeLease),
	kubernetes("v1", (*reader).event, writeEvent),
	kubernetes("v1", (*reader).secret, writeSecret),
}

// codecs are the codecs of all kinds, by kind.
var codecs = codecsByKind()

func codecsByKind() map[string]codec {
	found := make(map[string]codec, len(kinds.All))
	for _, kind := range kinds.All {
		found[kind.Name] = plain(kind)
	}
	for _, codec := range kubernetesCodecs {
		found[codec.kind] = codec
	}
	return found
}

// codecOf returns the codec of a version of a kind, and the function that converts a tree of this
// version to the present one, which may be nil.
func codecOf(apiVersion, kind string) (c codec, upgrade func(*node), ok bool) {
	c, ok = codecs[kind]
	if !ok || c.apiVersion == apiVersion {
		return c, nil, ok
	}
	upgrade, ok = c.older[apiVersion]
	return c, upgrade, ok
}
