package spec

// The labels that take a service, or an EndpointSlice, away from the node agents, whatever their values are. Another program
// forwards such a service, or none does.
const (
	LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless         = "service.kubernetes.io/headless"
)

// ForeignProxy returns the label that takes an object with these labels away from the node agents; empty if there is none.
func ForeignProxy(labels map[string]string) string {
	for _, label := range []string{LabelServiceProxyName, LabelHeadless} {
		if _, there := labels[label]; there {
			return label
		}
	}
	return ""
}
