package spec

import (
	"fmt"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Announced is the state of one load-balancer address on the networks of the nodes.
type Announced struct {
	Address string
	// Node is the node that announces the address; "": no node does.
	Node string
	// Why is the reason if no node does.
	Why string
}

const announces = " announces "

// AnnouncedMessage returns the message of the condition that tells the states of addresses.
func AnnouncedMessage(all []Announced) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = "node " + a.Node + announces + a.Address
		if a.Node == "" {
			texts[i] = fmt.Sprintf("nobody%s%s: %s", announces, a.Address, a.Why)
		}
	}
	return strings.Join(texts, "; ")
}

// Announcers returns the node that announces each address of a service, by address, from the message
// of its condition. A message that was shortened may lack some. The condition has no fields of its
// own for them, because a condition of Kubernetes has none.
func Announcers(svc *corev1.Service) map[string]string {
	message := object.Condition(svc.GetStatus().GetConditions(), object.ConditionAnnounced).GetMessage()
	parts := strings.Split(message, "; ")
	if len(message) >= maxMessage {
		parts = parts[:len(parts)-1]
	}
	nodes := map[string]string{}
	for _, part := range parts {
		node, address, ok := strings.Cut(part, announces)
		if name, isNode := strings.CutPrefix(node, "node "); ok && isNode && name != "" {
			nodes[address] = name
		}
	}
	return nodes
}
