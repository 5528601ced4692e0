package manifest

import (
	kubev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// upgradeEndpointSlice converts the tree of an EndpointSlice of the version that has a topology in
// endpoints.
func upgradeEndpointSlice(n *node) {
	for i := range n.pairs {
		if n.pairs[i].key == "apiVersion" {
			n.pairs[i].value = n.pairs[i].value.renamed(discoveryv1.SchemeGroupVersion.String())
		}
	}
	endpoints := n.get("endpoints")
	if endpoints == nil {
		return
	}
	for _, endpoint := range endpoints.items {
		upgradeTopology(endpoint)
	}
}

// upgradeTopology moves entries of an endpoint's topology to the fields that exist for them today.
func upgradeTopology(endpoint *node) {
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
	kubev1.LabelHostname: "nodeName", kubev1.LabelTopologyZone: "zone",
}
