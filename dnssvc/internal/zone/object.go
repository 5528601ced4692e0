package zone

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Texts are copied out of objects, because a few bytes that point into an object of a large batch
// would keep the memory of the whole batch in use.

// intern returns a copy of text that all objects with the same text share.
func intern(text string) string { return unique.Make(text).Value() }

// key is the namespace and name of an object.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// service holds the parts of one service from which its names derive. Its parts are replaced, never
// changed, so a shallow copy is a full copy.
type service struct {
	key
	spec   *serviceSpec // nil if only slices are known
	slices []*slice     // ordered by name; few services have more than two
}

// clone returns a copy that can be changed.
func (s *service) clone() *service {
	c := *s
	c.slices = slices.Clone(s.slices)
	return &c
}

// sliceIndex returns the position of a slice, or the position at which to insert it.
func (s *service) sliceIndex(name string) (int, bool) {
	return slices.BinarySearchFunc(s.slices, name, func(sl *slice, name string) int { return strings.Compare(sl.name, name) })
}

func (s *service) put(sl *slice) {
	if i, ok := s.sliceIndex(sl.name); ok {
		s.slices[i] = sl
	} else {
		s.slices = slices.Clip(slices.Insert(s.slices, i, sl))
	}
}

func (s *service) drop(name string) {
	if i, ok := s.sliceIndex(name); ok {
		s.slices = slices.Delete(s.slices, i, i+1)
	}
}

type serviceSpec struct {
	external string // externalName of an ExternalName service, as written
	alias    string // external in wire format; empty if it is no valid name
	headless bool
	addrs    []netip.Addr
	ports    []port
}

// port is a port of a service, or of all endpoints of a slice.
type port struct {
	name, proto string
	number      uint16
}

// slice holds the ready endpoints of an EndpointSlice.
type slice struct {
	name     string
	ports    []port
	ready    []netip.Addr
	details  []details // by index in ready; nil if no endpoint has any, as in most slices
	notReady int
}

type endpoint struct {
	addr netip.Addr
	details
}

type details struct {
	hostname   string
	weight     int32 // unweighted if none is set
	notServing bool  // published, but not serving or terminating
}

const unweighted = -1

// add adds a ready endpoint.
func (s *slice) add(e endpoint) {
	plain := details{weight: unweighted}
	if s.details == nil && e.details != plain {
		for range s.ready {
			s.details = append(s.details, plain)
		}
	}
	s.ready = append(s.ready, e.addr)
	if s.details != nil || e.details != plain {
		s.details = append(s.details, e.details)
	}
}

// endpoints yields the ready endpoints.
func (s *slice) endpoints() iter.Seq[endpoint] {
	return func(yield func(endpoint) bool) {
		for i, addr := range s.ready {
			e := endpoint{addr, details{weight: unweighted}}
			if s.details != nil {
				e.details = s.details[i]
			}
			if !yield(e) {
				return
			}
		}
	}
}

// notServingAddrs returns the addresses at which no endpoint serves. It is nil for nearly every
// service.
func (s *service) notServingAddrs() map[netip.Addr]bool {
	return notServingBy(s, func(e endpoint) netip.Addr { return e.addr })
}

// notServingLabels returns the labels without a serving endpoint. It is nil for nearly every
// service.
func (s *service) notServingLabels() map[string]bool { return notServingBy(s, endpoint.label) }

func notServingBy[K comparable](s *service, by func(endpoint) K) map[K]bool {
	var notServing map[K]bool
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			if e.notServing {
				if notServing == nil {
					notServing = map[K]bool{}
				}
				notServing[by(e)] = true
			}
		}
	}
	if notServing == nil {
		return nil
	}
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			if !e.notServing {
				delete(notServing, by(e)) // an endpoint that moves is in two slices for a while
			}
		}
	}
	return notServing
}

// label returns the endpoint's label below the service. It depends on the endpoint only, so that
// SRV, A and PTR records agree.
func (e endpoint) label() string {
	if e.hostname != "" {
		return label(e.hostname)
	}
	return label(Dashed(e.addr))
}

func convertService(o *corev1.Service) *serviceSpec {
	s := &serviceSpec{}
	spec := o.GetSpec()
	if object.IsExternalName(o) {
		s.external = strings.Clone(spec.GetExternalName())
		s.alias = aliasOf(s.external)
		return s
	}
	if s.headless = object.IsHeadless(o); !s.headless {
		s.addrs = object.ParseAddrs(object.ClusterIPs(o))
	}
	for _, p := range spec.GetPorts() {
		s.ports = append(s.ports, port{name: intern(p.GetName()), proto: protocol(p.GetProtocol()), number: uint16(p.GetPort())})
	}
	return s
}

// aliasOf returns the name that an ExternalName service stands for, or "" if there is none. An
// address is refused, because it would be read as a name of digits that does not resolve.
func aliasOf(externalName string) string {
	text := strings.TrimSuffix(externalName, ".")
	if _, err := netip.ParseAddr(text); err == nil {
		return ""
	}
	name, _ := ParseName(text)
	return name
}

func protocol(p corev1.Protocol) string {
	switch p {
	case corev1.Protocol_PROTOCOL_UDP:
		return "udp"
	case corev1.Protocol_PROTOCOL_SCTP:
		return "sctp"
	default:
		return "tcp"
	}
}

// convertSlice returns nil for a slice of host names, because DNS answers with addresses.
func convertSlice(o *corev1.EndpointSlice) *slice {
	if o.GetAddressType() == corev1.AddressType_ADDRESS_TYPE_FQDN {
		return nil
	}
	s := &slice{name: strings.Clone(o.GetMetadata().GetName())}
	for _, p := range o.GetPorts() {
		if p.Port != nil {
			s.ports = append(s.ports, port{name: intern(p.GetName()), proto: protocol(p.GetProtocol()), number: uint16(p.GetPort())})
		}
	}
	s.ready = make([]netip.Addr, 0, len(o.GetEndpoints()))
	for _, e := range o.GetEndpoints() {
		if c := e.GetConditions(); c != nil && c.Ready != nil && !c.GetReady() {
			s.notReady++
			continue
		}
		for _, ip := range e.GetAddresses() {
			addr, err := netip.ParseAddr(ip)
			if err != nil {
				continue
			}
			ready := endpoint{addr.Unmap().WithZone(""), details{
				hostname: strings.Clone(strings.ToLower(e.GetHostname())), weight: unweighted, notServing: isNotServing(e.GetConditions()),
			}}
			if e.Weight != nil {
				ready.weight = int32(min(e.GetWeight(), 65535))
			}
			s.add(ready)
		}
	}
	s.ready, s.details = slices.Clip(s.ready), slices.Clip(s.details)
	return s
}

// isNotServing reports whether a ready endpoint does not serve or is terminating. All endpoints of
// a service with publishNotReadyAddresses are published as ready.
func isNotServing(c *corev1.EndpointConditions) bool {
	return c.GetTerminating() || c != nil && c.Serving != nil && !c.GetServing()
}

// podAddrs returns the addresses at which a pod has names. It returns none once the pod has ended.
func podAddrs(o *corev1.Pod) []netip.Addr {
	if phase := o.GetStatus().GetPhase(); phase == corev1.PodPhase_POD_PHASE_SUCCEEDED || phase == corev1.PodPhase_POD_PHASE_FAILED {
		return nil
	}
	return object.ParseAddrs(object.PodIPs(o))
}
