package plan

import (
	"cmp"

	corev1 "portolan.dev/api/core/v1"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// Protocol is a transport protocol. The numbers are IANA's.
type Protocol uint8

// The protocols.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the name that manifests use.
func (p Protocol) String() string {
	switch p {
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return "TCP"
}

// Proto returns the protocol's value in the API.
func (p Protocol) Proto() corev1.Protocol {
	switch p {
	case UDP:
		return corev1.Protocol_PROTOCOL_UDP
	case SCTP:
		return corev1.Protocol_PROTOCOL_SCTP
	}
	return corev1.Protocol_PROTOCOL_TCP
}

func protocolOf(p corev1.Protocol) Protocol {
	switch p {
	case corev1.Protocol_PROTOCOL_UDP:
		return UDP
	case corev1.Protocol_PROTOCOL_SCTP:
		return SCTP
	}
	return TCP
}

// Audience is the set of clients that a virtual server serves. At one frontend, a server for
// Internal or External takes precedence over a server for AnyClient.
type Audience uint8

// The audiences.
const (
	AnyClient Audience = iota
	Internal           // pods and the node itself
	External           // all other clients
)

// String returns the audience's name in the API.
func (a Audience) String() string { return [...]string{"any", "internal", "external"}[a] }

// Exposure is the reason why the node serves a frontend.
type Exposure uint8

// The exposures by precedence: if a service has the same frontend twice, the first one applies.
const (
	ClusterIP Exposure = iota
	ExternalIP
	LoadBalancerIP
	NodePort
)

// String returns the exposure's name in the API.
func (e Exposure) String() string {
	return [...]string{"clusterIP", "externalIP", "loadBalancerIP", "nodePort"}[e]
}

// NoBackendsAction is the treatment of traffic to a frontend without usable backends.
type NoBackendsAction uint8

// The actions.
const (
	Refuse NoBackendsAction = iota // the client gets an error at once
	Drop                           // the client gets no answer, so that a load balancer tries another node
)

// String returns the action's name in the API.
func (v NoBackendsAction) String() string { return [...]string{"refuse", "drop"}[v] }

// Masquerade selects the traffic that has its source address replaced by the node's.
type Masquerade uint8

// The choices. A plane that terminates connections, such as the userspace plane, always replaces
// the source address.
const (
	MasqueradeNever Masquerade = iota
	// MasqueradeOutside replaces the source address of traffic from outside the known pod ranges,
	// from the node itself, and from clients on the same host or link as the backend, because the
	// backend's answers to those would not return through the node.
	MasqueradeOutside
	MasqueradeAlways
)

// String returns the choice in lower case, for logs and explanations.
func (m Masquerade) String() string { return [...]string{"never", "outside", "always"}[m] }

// Scheduler is the algorithm that picks a backend for a new connection.
type Scheduler uint8

// The schedulers. Their numbers are those in the API.
const (
	DefaultScheduler Scheduler = iota
	RoundRobin
	LeastConnections
	DestinationHash
	SourceHash
	ShortestDelay
	NeverQueue
	Maglev
)

// String returns the kernel's name of the scheduler.
func (s Scheduler) String() string {
	return [...]string{"", "rr", "lc", "dh", "sh", "sed", "nq", "mh"}[s]
}

// ParseScheduler returns the scheduler with the given kernel name.
func ParseScheduler(name string) (Scheduler, bool) {
	for s := RoundRobin; s <= Maglev; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return DefaultScheduler, false
}

// Proto returns the scheduler's value in the API.
func (s Scheduler) Proto() corev1.Scheduler { return corev1.Scheduler(s) }

// Flags refine a scheduler.
type Flags uint8

// HashPort is the flag of sh and mh to hash the source port too. The number 1 was a flag that
// journals of earlier agents have.
const HashPort Flags = 2

// String returns the flags in the spelling that services use for sh.
func (f Flags) String() string { return [...]string{"", "sh-port"}[f>>1&1] }
