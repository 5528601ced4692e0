package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Explain returns sentences that name the objects from which the records of a type at a name
// derive, or that say why there are none.
func (t *Table) Explain(name string, rrtype uint16) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.current.Load()
	for i := range t.zones {
		if z := t.zones[i]; isSubdomain(name, z.Name) {
			x := explanation{t: t, s: s, rrtype: dns.TypeToString[rrtype]}
			switch {
			case name == z.Name:
				x.addLine("%s is the apex of a zone: SOA and NS records of this name server", Text(name))
				if n := s.Get([]byte(name)); n.Set(dns.TypePTR) != nil {
					x.address(name)
				}
			case z.Reverse:
				x.address(name)
			default:
				x.forward(labels(strings.TrimSuffix(name, z.Name)))
			}
			if !s.Synced {
				x.addLine("the name server has not yet seen all objects: it answers SERVFAIL for names it does not know")
			}
			return x.lines
		}
	}
	if n := s.Get([]byte(name)); n != nil && n.Zone() == AddressZone {
		x := explanation{t: t, s: s, rrtype: dns.TypeToString[rrtype]}
		x.address(name)
		return x.lines
	}
	return []string{Text(name) + " is in none of the zones served here"}
}

// labels splits a name below a zone into its labels, as text.
func labels(rel string) []string {
	var out []string
	for rel != "" {
		n := 1 + int(rel[0])
		out = append(out, rel[1:n])
		rel = rel[n:]
	}
	return out
}

type explanation struct {
	t      *Table
	s      *Snapshot
	rrtype string
	lines  []string
}

func (x *explanation) addLine(format string, args ...any) {
	x.lines = append(x.lines, fmt.Sprintf(format, args...))
}

// forward explains a name by its labels below the zone. From the last label to the first they are
// kind, namespace, service, and the labels below a service.
func (x *explanation) forward(l []string) {
	kind := l[len(l)-1]
	switch rest := l[:len(l)-1]; {
	case kind == "svc" && len(rest) == 0, kind == "pod" && len(rest) == 0:
		x.addLine("%s is reserved by the specification and has no records", kind)
	case kind == "svc" && len(rest) == 1:
		x.namespace(rest[0])
	case kind == "svc":
		x.service(key{rest[len(rest)-1], rest[len(rest)-2]}, rest[:len(rest)-2])
	case kind == "pod":
		x.pod(rest)
	case kind == "dns-version" && len(rest) == 0:
		x.addLine("dns-version is the version of the DNS specification that the records follow")
	case kind == "dns":
		x.addLine("ns.dns is this name server; its addresses are configured")
	default:
		x.addLine("below a zone there are the names svc, pod, dns and dns-version only")
	}
}

func (x *explanation) namespace(name string) {
	if !x.t.namespaces[name] && !x.hasServices(name) {
		x.addLine("there is no Namespace %s", name)
		return
	}
	x.addLine("%s is a namespace: it exists and has no records of its own", name)
}

// hasServices reports whether the namespace has a service.
func (x *explanation) hasServices(namespace string) bool {
	for k, s := range x.t.services {
		if k.namespace == namespace && s.spec != nil {
			return true
		}
	}
	return false
}

func (x *explanation) service(k key, rest []string) {
	s := x.t.services[k]
	if _, failed := x.t.failed.published[k]; failed {
		x.addLine("the last change of Service %s is not published, because that panicked: /readyz and the log have the reason", k)
	}
	if s == nil || s.spec == nil {
		if !x.t.namespaces[k.namespace] && !x.hasServices(k.namespace) {
			x.addLine("there is no Namespace %s", k.namespace)
		}
		x.addLine("there is no Service %s", k)
		x.otherNamespaces(k)
		return
	}
	if s.spec.external != "" && s.spec.alias == "" {
		x.addLine("Service %s: externalName %q is an address, not a name, and DNS cannot lead there", k, s.spec.external)
		x.addLine("for a fixed address use a headless service without a selector, and an EndpointSlice")
		return
	}
	if s.spec.alias != "" {
		x.addLine("Service %s, externalName: an alias of %s for every type but SRV", k, Text(s.spec.alias))
		if x.rrtype == "SRV" {
			x.addLine("it has no ports, so that there are no SRV records")
		}
		if len(rest) > 0 {
			x.addLine("nothing exists below an ExternalName service")
		}
		return
	}
	switch {
	case len(rest) == 0:
		x.serviceName(s)
	case strings.HasPrefix(rest[0], "_"), strings.HasPrefix(rest[len(rest)-1], "_"):
		x.port(s, rest)
	case len(rest) == 1:
		x.endpoint(s, rest[0])
	default:
		x.addLine("Service %s exists; below it there are ports (_port._protocol) and endpoints (one label) only", k)
	}
}

// otherNamespaces names other namespaces that have a service of that name.
func (x *explanation) otherNamespaces(k key) {
	var in []string
	for other, s := range x.t.services {
		if other.name == k.name && s.spec != nil {
			in = append(in, other.namespace)
		}
	}
	slices.Sort(in)
	if len(in) > 0 {
		x.addLine("there is a Service of that name in: %s", strings.Join(in[:min(len(in), 5)], ", "))
	}
}

// serviceName explains the name of a service itself.
func (x *explanation) serviceName(s *service) {
	ready, notReady := s.counts()
	switch {
	case !s.spec.headless && len(s.spec.addrs) == 0:
		x.addLine("Service %s has no cluster IP yet", s.key)
	case !s.spec.headless && x.rrtype == "SRV":
		x.addLine("Service %s: each of its %d ports", s.key, len(s.spec.ports))
	case !s.spec.headless:
		x.addLine("Service %s, clusterIP %s", s.key, joinAddrs(s.spec.addrs))
	case ready == 0 && notReady == 0:
		x.addLine("Service %s is headless and has no endpoints", s.key)
	case ready == 0:
		x.addLine("Service %s is headless and none of its %d endpoints is ready", s.key, notReady)
	default:
		x.addLine("Service %s is headless: %d ready endpoints (%d more are not ready) in EndpointSlices %s",
			s.key, ready, notReady, strings.Join(s.sliceNames(), ", "))
	}
	x.otherType(serviceName, "services")
}

// otherType adds the types of an owner's records if the question asks for another one.
func (x *explanation) otherType(owner owner, plural string) {
	if isTypeOf(owner, x.rrtype) {
		return
	}
	types, of := typesOf(owner), "of type"
	if len(types) > 1 {
		of = "of the types"
	}
	x.addLine("%s have records %s %s, not %s", plural, of, enumerate(types, "and"), x.rrtype)
}

func joinAddrs(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}

func (s *service) counts() (ready, notReady int) {
	for _, sl := range s.slices {
		ready += len(sl.ready)
		notReady += sl.notReady
	}
	return ready, notReady
}

func (s *service) sliceNames() []string {
	var names []string
	for _, sl := range s.slices[:min(len(s.slices), 10)] {
		names = append(names, sl.name)
	}
	return names
}

// port explains a name of the form _PORT._PROTOCOL below a service.
func (x *explanation) port(s *service, rest []string) {
	if len(rest) == 1 {
		x.addLine("Service %s: ask for _port.%s", s.key, rest[0])
		return
	}
	name, proto := strings.TrimPrefix(rest[0], "_"), strings.TrimPrefix(rest[len(rest)-1], "_")
	ports := s.spec.ports
	if s.spec.headless {
		ports = nil
		for _, sl := range s.slices {
			if len(sl.ready) > 0 {
				ports = append(ports, sl.ports...)
			}
		}
	}
	var have []string
	for _, p := range ports {
		if p.name == name && p.proto == proto && len(rest) == 2 {
			x.addLine("Service %s, port %s: %d/%s", s.key, name, p.number, p.proto)
			x.otherType(portName, "ports")
			return
		}
		if text := p.name + "/" + p.proto; p.name != "" && !slices.Contains(have, text) {
			have = append(have, text)
		}
	}
	x.addLine("Service %s exists and has no port named %s/%s", s.key, name, proto)
	if len(have) > 0 {
		x.addLine("its named ports: %s", strings.Join(have, ", "))
	} else if s.spec.headless {
		x.addLine("it is headless, and no ready endpoint has a named port")
	} else {
		x.addLine("none of its ports has a name")
	}
}

// endpoint explains a name with one label below a service.
func (x *explanation) endpoint(s *service, l string) {
	for _, sl := range s.slices {
		for e := range sl.endpoints() {
			if e.label() == label(l) {
				x.addLine("EndpointSlice %s/%s of Service %s: endpoint %s is ready", s.namespace, sl.name, s.key, e.addr)
			}
		}
	}
	if len(x.lines) == 0 {
		ready, notReady := s.counts()
		x.addLine("Service %s exists and none of its %d ready endpoints is named %s (%d more are not ready)", s.key, ready, l, notReady)
	}
}

func (x *explanation) pod(rest []string) {
	namespace := rest[len(rest)-1]
	switch {
	case x.t.cfg.Pods == PodsDisabled:
		x.addLine("pods have no names here: pod records are disabled")
	case len(rest) == 1:
		x.namespace(namespace)
	case x.t.cfg.Pods == PodsInsecure:
		x.addLine("the address is the one in the name: pod records are insecure, and it is not checked whether such a pod exists")
		if !x.t.namespaces[namespace] {
			x.addLine("there is no Namespace %s", namespace)
		}
	case x.t.podNames[key{namespace, rest[0]}] > 0 && len(rest) == 2:
		x.addLine("a Pod of namespace %s has the address", namespace)
	default:
		x.addLine("no Pod of namespace %s has the address %s", namespace, rest[0])
	}
}

// address explains a name in a reverse zone.
func (x *explanation) address(name string) {
	n := x.s.Get([]byte(name))
	if n == nil || n.Set(dns.TypePTR) == nil {
		x.addLine("no Service has this address as a cluster IP, and no ready endpoint has it")
		return
	}
	for target := range n.Set(dns.TypePTR).Names() {
		if x.t.isService(target) {
			x.addLine("%s has the address as a cluster IP", Text(target))
		} else {
			x.addLine("%s is a ready endpoint with the address", Text(target))
		}
	}
	x.otherType(addressName, "addresses")
}
