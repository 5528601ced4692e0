package spec

// Labels with which a service or an EndpointSlice is ignored by the node agents, whatever their
// values. Another program may forward the traffic of such a service.
const (
	LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless         = "service.kubernetes.io/headless"
)

// ForeignProxy returns the label for which the node agents ignore an object, or the empty string if
// it has none.
func ForeignProxy(labels map[string]string) string {
	for _, label := range []string{LabelServiceProxyName, LabelHeadless} {
		if _, there := labels[label]; there {
			return label
		}
	}
	return ""
}
