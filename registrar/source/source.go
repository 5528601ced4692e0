package source

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// Source reports workloads of this node, such as the containers of a Docker engine.
type Source interface {
	// Name is the name of the source, such as "docker". It is part of the identity of its workloads'
	// pods, so it never changes.
	Name() string
	// Run reports the workloads until ctx is done, and then returns nil. It calls report from one goroutine:
	// first when it has read all workloads, then after each change. A source that loses its connection
	// reports a Report with Err and no workloads, reconnects by itself, and then reports all workloads
	// again. Run returns an error only if it can never work with its options.
	Run(ctx context.Context, report func(Report)) error
}

// Report has all workloads of a source at one time.
type Report struct {
	// Workloads are all workloads, in any order, with different IDs. Neither the registrar nor the source
	// changes them after the report.
	Workloads []Workload
	// Problems are about containers and units that are not registered, such as a container without a port.
	Problems []Problem
	// Err is the reason why the source cannot read its workloads at the moment. The workloads of its last
	// report without an error stay registered, because their state is not known.
	Err error
}

// Workload is one running backend: a container, a unit.
type Workload struct {
	// ID identifies the workload within the source, also after a restart of the registrar: the ID of a
	// container, the name of a unit.
	ID string
	// Name is the name that people use.
	Name string
	// Origin is the project of the workload, such as "compose project shop", or empty. If workloads of two
	// origins are backends of the same service, there is an Event.
	Origin string

	// Namespace is the namespace of the service. Empty: the registrar's default.
	Namespace string
	// Service is the name of the service of which the workload is a backend.
	Service string
	// Ports are its ports, with different names.
	Ports []Port
	// Addresses are its addresses, at most one of each family. With HostNetwork they may be empty, which
	// means the addresses of the node.
	Addresses []string
	// HostNetwork is true if it uses the node's own addresses.
	HostNetwork bool
	// Labels are additional labels of the pod, besides the labels that the service selects.
	Labels map[string]string
	// Weight is its share of traffic relative to other backends, 0-65535. Nil: 1.
	Weight *uint32
	// Drain is the time for which connections may go on after the workload is asked to stop: the grace period
	// of its pod. Zero: 30 s, Kubernetes' default.
	Drain time.Duration

	// Probe is the check by which the node agent decides whether the workload is ready. Ready is ignored
	// then.
	Probe *corev1.Probe
	// Ready is true if the workload is ready. If it is not, Reason is the reason.
	Ready  bool
	Reason string
	// Terminating is true if the workload was asked to stop, so that it gets no new connections. A workload
	// that has ended is not in the report.
	Terminating bool

	// Problems are about labels that were ignored. The workload is registered all the same.
	Problems []Problem
}

// Port is a port of a workload.
type Port struct {
	// Name is an IANA service name. It is unique in the workload.
	Name string
	// Number is the port at the addresses of the workload.
	Number uint16
	// ServicePort is the port of the service, if the registrar creates it. Zero: Number. It differs from
	// Number for published ports.
	ServicePort uint16
	Protocol    corev1.Protocol
}

// Problem is a mistake that a person should repair. It becomes an Event and a line of the log when it is
// reported for the first time.
type Problem struct {
	// Object is the name of the container or unit.
	Object string
	// Field is the label or key with the mistake, or empty.
	Field string
	// Reason is one word in CamelCase, such as "InvalidLabel".
	Reason string
	// Message describes the mistake and the remedy.
	Message string
}

// The reasons of problems that several sources report.
const (
	// ReasonInvalid: a label or key cannot be read.
	ReasonInvalid = "InvalidTerm"
	// ReasonNoAddress: the workload has no address that other machines reach.
	ReasonNoAddress = "NoAddress"
	// ReasonNoPorts: the workload has no ports.
	ReasonNoPorts = "NoPorts"
	// ReasonAmbiguous: the user must choose, such as between two networks of a container.
	ReasonAmbiguous = "Ambiguous"
)
