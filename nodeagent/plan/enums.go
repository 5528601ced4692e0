package plan

import (
	"cmp"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// Protocol is a transport protocol; the numbers are IANA's.
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

// Proto returns the protocol as the API spells it.
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

// Audience says whose traffic a virtual server takes. A server for one audience
// wins over a server for anyone at the same frontend.
type Audience uint8

// The audiences.
const (
	Anyone   Audience = iota
	Internal          // pods and the node itself
	External          // everybody else
)

// String returns the word that the API uses.
func (a Audience) String() string { return [...]string{"any", "internal", "external"}[a] }

// Exposure says why the node serves a frontend.
type Exposure uint8

// The exposures, strongest first: where one service has a frontend twice, the
// first wins.
const (
	ClusterIP Exposure = iota
	ExternalIP
	LoadBalancerIP
	NodePort
)

// String returns the word that the API uses.
func (e Exposure) String() string {
	return [...]string{"clusterIP", "externalIP", "loadBalancerIP", "nodePort"}[e]
}

// Verdict is what happens to traffic that no backend takes.
type Verdict uint8

// The verdicts.
const (
	Refuse Verdict = iota // the client learns at once
	Drop                  // the client hears nothing, and a load balancer tries another node
)

// String returns the word that the API uses.
func (v Verdict) String() string { return [...]string{"refuse", "drop"}[v] }

// Masquerade says whose source address is replaced by the node's.
type Masquerade uint8

// The choices. A plane that terminates connections always does.
const (
	MasqueradeNever Masquerade = iota
	// MasqueradeOutside: sources that are no pods, as far as the ranges of pods are
	// known; the node itself; and those that sit beside the backend, whose answers
	// would not come back through the node.
	MasqueradeOutside
	MasqueradeAlways
)

// String returns a word for people.
func (m Masquerade) String() string { return [...]string{"never", "outside", "always"}[m] }

// Scheduler is how a backend is picked.
type Scheduler uint8

// The schedulers. Their numbers are the API's.
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

// ParseScheduler understands the kernel's names.
func ParseScheduler(name string) (Scheduler, bool) {
	for s := RoundRobin; s <= Maglev; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return DefaultScheduler, false
}

// Proto returns the scheduler as the API spells it.
func (s Scheduler) Proto() corev1.Scheduler { return corev1.Scheduler(s) }

// Flags refine a scheduler.
type Flags uint8

// The flags.
const (
	HashFallback Flags = 1 << iota // sh, mh: another backend where the hashed one is away
	HashPort                       // sh, mh: the source port counts too
)

// String returns the flags as a service spells them for sh.
func (f Flags) String() string {
	return [...]string{"", "sh-fallback", "sh-port", "sh-fallback,sh-port"}[f&3]
}
