package endpoints

import (
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// Set has the endpoints of the EndpointSlices of one service. It reads each slice once, because a service may
// have thousands of ports.
type Set struct {
	slices []slice
	report func(string, ...any)
}

// NewSet returns the endpoints of slices. It passes invalid fields of the slices that a port needs, which it
// ignores, to report. A Set is not safe for concurrent use.
func NewSet(slicesOf []*corev1.EndpointSlice, report func(string, ...any)) *Set {
	s := &Set{slices: make([]slice, len(slicesOf)), report: report}
	for i, of := range slicesOf {
		s.slices[i].EndpointSlice = of
	}
	return s
}

// Candidates returns the endpoints of one service port in one address family, sorted by address, each address
// once.
func (s *Set) Candidates(port *corev1.ServicePort, v6 bool) []Candidate {
	var all []Candidate
	for i := range s.slices {
		of := &s.slices[i]
		if of.GetAddressType() != addressType(v6) {
			continue
		}
		number, ok := of.port(port, s.report)
		if !ok {
			continue
		}
		candidates := of.read(v6, s.report)
		all = slices.Grow(all, len(candidates))
		for _, c := range candidates {
			c.Addr = netip.AddrPortFrom(c.Addr.Addr(), number)
			all = append(all, c)
		}
	}
	return dedupe(all)
}

// slice is an EndpointSlice with the results of reading it.
type slice struct {
	*corev1.EndpointSlice

	candidates []Candidate // of all its addresses, without ports; set by read
	wasRead    bool
	byPort     map[portKey]*corev1.EndpointPort // nil for a slice with few ports
}

// portKey identifies a port of a slice by its name and protocol.
type portKey struct {
	name     string
	protocol corev1.Protocol
}

// read returns the candidates of a slice, without ports. Each address of an endpoint is a backend of its own, as
// Kubernetes documents it for an EndpointSlice with two addresses in one endpoint.
func (s *slice) read(v6 bool, report func(string, ...any)) []Candidate {
	if s.wasRead {
		return s.candidates
	}
	s.wasRead = true
	s.candidates = make([]Candidate, 0, len(s.GetEndpoints()))
	for _, ep := range s.GetEndpoints() {
		if len(ep.GetAddresses()) == 0 {
			report("EndpointSlice %s: an endpoint has no address", s.GetMetadata().GetName())
		}
		for _, text := range ep.GetAddresses() {
			addr, err := parseAddr(text, v6)
			if err != nil {
				report("EndpointSlice %s: %v", s.GetMetadata().GetName(), err)
				continue
			}
			s.candidates = append(s.candidates, NewCandidate(ep, netip.AddrPortFrom(addr, 0), s.GetMetadata().GetNamespace()))
		}
	}
	return s.candidates
}

// fewPorts is the number of ports up to which comparing them takes less time than a map.
const fewPorts = 16

// find returns the port of a slice with the name and protocol of a service port, or nil.
func (s *slice) find(key portKey) *corev1.EndpointPort {
	if len(s.GetPorts()) > fewPorts {
		if s.byPort == nil {
			s.byPort = make(map[portKey]*corev1.EndpointPort, len(s.GetPorts()))
			for _, p := range s.GetPorts() {
				if k := keyOf(p); s.byPort[k] == nil {
					s.byPort[k] = p
				}
			}
		}
		return s.byPort[key]
	}
	for _, p := range s.GetPorts() {
		if keyOf(p) == key {
			return p
		}
	}
	return nil
}

func keyOf(p interface {
	GetName() string
	GetProtocol() corev1.Protocol
}) portKey {
	return portKey{p.GetName(), protocolOf(p.GetProtocol())}
}

// port returns the port number that a slice maps a service port to.
func (s *slice) port(port *corev1.ServicePort, report func(string, ...any)) (uint16, bool) {
	p := s.find(keyOf(port))
	if p == nil || p.Port == nil { // an EndpointPort without a number means "all ports", which no proxy here supports
		return 0, false
	}
	if n := p.GetPort(); n < 1 || n > 65535 {
		report("EndpointSlice %s: port %q is %d, which is no port", s.GetMetadata().GetName(), p.GetName(), n)
		return 0, false
	}
	return uint16(p.GetPort()), true
}
