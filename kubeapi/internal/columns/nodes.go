package columns

import (
	"cmp"
	"slices"
	"strings"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kube"
)

var nodes = printer{
	columns: []metav1.TableColumnDefinition{
		name, text("Status", "Whether the node is ready."), text("Roles", "The roles of the node, from its labels."), age,
		text("Version", "The version of the node's agent."), wide("Internal-IP", "Address inside of the network."),
		wide("External-IP", "Address outside of the network."), wide("OS-Image", "Not known to Portolan."),
		wide("Kernel-Version", "The version of the kernel."), wide("Container-Runtime", "Not known to Portolan."),
	},
	cells: func(o kube.Object) []any {
		node, _ := o.(*kubev1.Node)
		return []any{
			node.Name, nodeStatus(node), orNone(roles(node)), Age(node.CreationTimestamp), node.Status.NodeInfo.KubeletVersion,
			orNone(address(node, kubev1.NodeInternalIP)), orNone(address(node, kubev1.NodeExternalIP)), "<unknown>",
			cmp.Or(node.Status.NodeInfo.KernelVersion, "<unknown>"), "<unknown>",
		}
	},
}

func nodeStatus(node *kubev1.Node) string {
	status := "Unknown"
	for _, c := range node.Status.Conditions {
		if c.Type == kubev1.NodeReady {
			status = "NotReady"
			if c.Status == kubev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func roles(node *kubev1.Node) string {
	var all []string
	for label := range node.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			all = append(all, role)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func address(node *kubev1.Node, of kubev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == of {
			return a.Address
		}
	}
	return ""
}

var namespaces = printer{
	columns: []metav1.TableColumnDefinition{name, text("Status", "The phase of the namespace."), age},
	cells: func(o kube.Object) []any {
		namespace, _ := o.(*kubev1.Namespace)
		return []any{namespace.Name, string(namespace.Status.Phase), Age(namespace.CreationTimestamp)}
	},
}
