package source

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// Source is a place on this node that workloads are registered from.
type Source interface {
	// Name is the name of the source, such as "docker". It is part of the identity of its workloads'
	// pods, so it never changes.
	Name() string
	// Run reports what there is until ctx is done, and then returns nil. It calls report from one
	// goroutine: first when it has seen everything for the first time, then after each change. A source
	// that loses its connection reports a Report with Err and no workloads, connects again by itself, and
	// reports everything once it can. Run returns an error only if it can never work with its options.
	Run(ctx context.Context, report func(Report)) error
}

// Report is everything that a source sees at one time.
type Report struct {
	// Workloads are all workloads, in any order. Each has another ID. The registrar reads them only, and a
	// source does not change them after its report.
	Workloads []Workload
	// Problems are about objects of which no workload could be made, such as a container whose label
	// portolan.port.http is no port.
	Problems []Problem
	// Err is why the source sees nothing at the moment. The workloads of its last report without an
	// error stay registered, because a source that cannot be asked says nothing about them.
	Err error
}

// Workload is one running backend: a container, a unit.
type Workload struct {
	// ID tells the workload from all others of the source, over restarts of the registrar: the ID of a
	// container, the name of a unit.
	ID string
	// Name is the name that people use for it.
	Name string
	// Origin names what it belongs to, such as "compose project shop"; empty: nothing. Workloads of two
	// origins that want one service get an Event.
	Origin string

	// Namespace is the namespace of the service. Empty: the registrar's default.
	Namespace string
	// Service is the name of the service that it is a backend of.
	Service string
	// Ports are its ports, each with another name.
	Ports []Port
	// Addresses are its addresses, at most one of each family. With HostNetwork there may be none, which
	// means the addresses of the node.
	Addresses []string
	// HostNetwork says that it uses the node's own addresses.
	HostNetwork bool
	// Labels are labels of the pod besides those that the service selects.
	Labels map[string]string
	// Weight is its share of traffic relative to other backends, 0-65535. Nil: 1.
	Weight *uint32
	// Drain is the time for which connections may go on after it is asked to stop: the grace period of
	// its pod. Zero: 30 s, Kubernetes' default.
	Drain time.Duration

	// Probe is the check by which the node agent decides whether it is ready. With a probe, Ready is not
	// looked at.
	Probe *corev1.Probe
	// Ready says whether it is ready, and Reason why it is not.
	Ready  bool
	Reason string
	// Terminating says that it was asked to stop, and gets no new connections. A workload that is gone
	// is not in the report.
	Terminating bool

	// Problems are about parts of it that had to be left out. It is registered all the same.
	Problems []Problem
}

// Port is a port of a workload.
type Port struct {
	// Name is an IANA service name, unique in the workload.
	Name string
	// Number is where it answers at its addresses.
	Number uint16
	// ServicePort is the port of the service that is made for it on demand. Zero: Number. They differ
	// for published ports.
	ServicePort uint16
	// Protocol is the protocol.
	Protocol corev1.Protocol
}

// Problem is something that a person should repair. It becomes an Event and a line of the log once,
// when it is reported for the first time.
type Problem struct {
	// Object is the name of the container or unit.
	Object string
	// Field is the label or key that is wrong; may be empty.
	Field string
	// Reason is one word in CamelCase, such as "InvalidLabel".
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

// The reasons of problems that more than one source has.
const (
	// ReasonInvalid is that of a label or key that cannot be read.
	ReasonInvalid = "InvalidTerm"
	// ReasonNoAddress is that of a workload without an address that others reach.
	ReasonNoAddress = "NoAddress"
	// ReasonNoPorts is that of a workload without ports.
	ReasonNoPorts = "NoPorts"
	// ReasonAmbiguous is that of a choice that is not the registrar's, such as one of two networks.
	ReasonAmbiguous = "Ambiguous"
)
