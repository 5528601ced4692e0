package docker

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/spec"
)

// hostPort is the address and port of the node at which a port of a container is published.
type hostPort struct {
	addr   netip.Addr // unspecified: all addresses of the node of the same family
	number uint16
}

// published returns the addresses and host ports of the node at which the container's ports are published.
// A port of a workload has the same number in both families. So the family with more published ports is
// registered, or IPv4 if there are equally many. The other family is added if it has the same numbers.
func (r *reader) published(c *container, ports []source.Port, p *problems) (place, bool) {
	four := r.family(c, ports, netip.Addr.Is4)
	six := r.family(c, ports, netip.Addr.Is6)
	first, second := four, six
	if len(six.ports) > len(four.ports) {
		first, second = six, four
	}
	result := place{hostNetwork: true, published: true, ports: first.ports}
	for _, port := range ports {
		if !slices.ContainsFunc(first.ports, func(other source.Port) bool { return other.Name == port.Name }) {
			p.add(labelPublish, reasonNotPublished, "its port %s is not published at an address that others reach: publish it, or set %s=false", inside(port), labelPublish)
		}
	}
	if len(first.ports) == 0 {
		return place{}, false
	}
	families := []publication{first}
	switch {
	case len(second.ports) == 0:
	case slices.Equal(first.ports, second.ports):
		families = append(families, second)
	default:
		p.add(labelPublish, reasonPublishedTwice, "its ports are published differently for IPv4 and for IPv6, and only %s is registered: publish both families with the same numbers, such as -p 8080:80", first.name)
	}
	for _, family := range families {
		if len(family.conflict) > 0 {
			p.add(labelPublish, source.ReasonAmbiguous, "its ports are published at several addresses, %s: publish all at one", list(family.conflict))
			return place{}, false
		}
		result.addresses = append(result.addresses, r.nodeAddresses(family)...)
	}
	if len(result.addresses) == 0 && len(r.options.NodeAddresses) > 0 {
		p.add(labelPublish, source.ReasonNoAddress, "its ports are published for %s only, and the node has no such address: publish them for the other family", first.name)
		return place{}, false
	}
	return result, true
}

// publication has the host ports of one address family.
type publication struct {
	name     string // IPv4 or IPv6
	is       func(netip.Addr) bool
	ports    []source.Port
	addr     netip.Addr // the only address; the zero Addr: all addresses of the node
	conflict []string   // the addresses, if there are several
}

// family returns the publication of one address family.
func (r *reader) family(c *container, ports []source.Port, is func(netip.Addr) bool) publication {
	result := publication{name: "IPv6", is: is}
	if is(netip.IPv4Unspecified()) {
		result.name = "IPv4"
	}
	for _, port := range ports {
		at, found := publishedAt(c, port, is)
		if !found {
			continue
		}
		result.ports = append(result.ports, source.Port{Name: port.Name, Number: at.number, ServicePort: port.Number, Protocol: port.Protocol})
		if !at.addr.IsUnspecified() && !slices.Contains(result.conflict, at.addr.String()) {
			result.addr = at.addr
			result.conflict = append(result.conflict, at.addr.String())
		}
	}
	if len(result.conflict) < 2 {
		result.conflict = nil
	}
	return result
}

// publishedAt returns the host port of a port: the smallest one if there are several. It ignores loopback and
// link-local addresses, because clients on other machines cannot use them.
func publishedAt(c *container, port source.Port, is func(netip.Addr) bool) (hostPort, bool) {
	var all []hostPort
	for _, b := range c.NetworkSettings.Ports[inside(port)] {
		number, err := strconv.ParseUint(b.HostPort, 10, 16)
		addr, known := hostAddress(b.HostIP)
		if err != nil || number == 0 || !known || !is(addr) || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
			continue
		}
		all = append(all, hostPort{addr: addr, number: uint16(number)})
	}
	if len(all) == 0 {
		return hostPort{}, false
	}
	return slices.MinFunc(all, func(a, b hostPort) int { return cmp.Or(cmp.Compare(a.number, b.number), a.addr.Compare(b.addr)) }), true
}

// hostAddress reads the host address of a published port. Older engines write an empty text for all addresses.
func hostAddress(text string) (netip.Addr, bool) {
	if text == "" {
		return netip.IPv4Unspecified(), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}

// nodeAddresses returns the address of a publication. If it has none, nodeAddresses returns the first address
// of the family in Options.NodeAddresses, or nothing if there is none.
func (r *reader) nodeAddresses(published publication) []string {
	if published.addr.IsValid() {
		return []string{published.addr.String()}
	}
	for _, addr := range r.options.NodeAddresses {
		if published.is(addr) {
			return []string{addr.String()}
		}
	}
	return nil
}

// inside returns a port of the container as the engine writes it, such as 80/tcp.
func inside(port source.Port) string {
	return strconv.Itoa(int(port.Number)) + "/" + strings.ToLower(spec.EnumName(port.Protocol))
}

// publishProbe replaces the port of a check by its host port, because the node agent connects to the node's
// address. It reports whether the port is published. A check with the name of a port, or with a host of its
// own, needs no change.
func publishProbe(check *corev1.Probe, ports []source.Port) bool {
	tcp, http, grpc := check.GetTcpSocket(), check.GetHttpGet(), check.GetGrpc()
	var number *int32
	switch {
	case grpc != nil:
		number = &grpc.Port
	case tcp != nil && tcp.GetHost() == "":
		number = numberOf(tcp.GetPort())
	case http != nil && http.GetHost() == "":
		number = numberOf(http.GetPort())
	}
	if number == nil {
		return true
	}
	for _, port := range ports {
		if int32(port.ServicePort) == *number && port.Protocol == corev1.Protocol_PROTOCOL_TCP {
			*number = int32(port.Number)
			return true
		}
	}
	return false
}

// numberOf returns a pointer to the number of a port, or nil if the port has a name.
func numberOf(port *corev1.IntOrString) *int32 {
	if value, isNumber := port.GetValue().(*corev1.IntOrString_Number); isNumber {
		return &value.Number
	}
	return nil
}
