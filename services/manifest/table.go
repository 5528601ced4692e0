package manifest

import (
	"portolan.dev/services/kinds"
	"portolan.dev/services/kube"
)

// discoveryOld is the older version of EndpointSlices.
const discoveryOld = "discovery.k8s.io/v1beta1"

// kubernetesCodecs lists the codecs of the kinds that Kubernetes has. The other kinds have the codec
// that plain returns.
var kubernetesCodecs = []codec{
	kubernetes(kube.Namespace), kubernetes(kube.Node), kubernetes(kube.Service), kubernetes(kube.Pod), kubernetes(kube.Endpoints),
	kubernetes(kube.EndpointSlice).alsoReads(discoveryOld, upgradeEndpointSlice), kubernetes(kube.Lease), kubernetes(kube.Event),
	kubernetes(kube.Secret),
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
