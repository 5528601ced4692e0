package spec

import "portolan.dev/services/object"

// ForeignProxy returns the label for which the node agents ignore an object, or the empty string if
// it has none.
func ForeignProxy(labels map[string]string) string {
	for _, label := range []string{object.LabelServiceProxyName, object.LabelHeadless} {
		if _, there := labels[label]; there {
			return label
		}
	}
	return ""
}
