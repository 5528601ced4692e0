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

// hostPort is where a port of a container is published.
type hostPort struct {
	addr   netip.Addr // unspecified: all addresses of the node of the same family
	number uint16
}

// published returns the addresses of the node and the host ports that the container's ports are published
// at. A workload's port has one number, so the family with more published ports decides, IPv4 before IPv6;
// the other family is served too if it has the same numbers.
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
			p.add(prefix+wordPublish, reasonNotPublished, "its port %s is not published at an address that others reach: publish it, or set %s%s=false", inside(port), prefix, wordPublish)
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
		p.add(prefix+wordPublish, reasonPublishedTwice, "its ports are published differently for IPv4 and for IPv6, and only %s is registered: publish both families with the same numbers, such as -p 8080:80", first.name)
	}
	for _, family := range families {
		if len(family.conflict) > 0 {
			p.add(prefix+wordPublish, source.ReasonAmbiguous, "its ports are published at several addresses, %s: publish all at one", list(family.conflict))
			return place{}, false
		}
		result.addresses = append(result.addresses, r.nodeAddresses(family)...)
	}
	if len(result.addresses) == 0 && len(r.options.NodeAddresses) > 0 {
		p.add(prefix+wordPublish, source.ReasonNoAddress, "its ports are published for %s only, and the node has no such address: publish them for the other family", first.name)
		return place{}, false
	}
	return result, true
}

// publication is what is published at the addresses of one family.
type publication struct {
	name     string // IPv4 or IPv6
	is       func(netip.Addr) bool
	ports    []source.Port
	addr     netip.Addr // the only address; the zero Addr: all addresses of the node
	conflict []string   // the addresses, if there are several
}

// family returns what is published at the addresses of one family.
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

// publishedAt returns where a port is published for others: not at a loopback address, and of several host
// ports at the smallest.
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

// hostAddress reads the address that a port is published at. Older engines have an empty one for all.
func hostAddress(text string) (netip.Addr, bool) {
	if text == "" {
		return netip.IPv4Unspecified(), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}

// nodeAddresses returns the address at which a publication is reached, or none if it is that of the node
// and was not given.
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

// inside returns the port as the engine writes it, such as 80/tcp.
func inside(port source.Port) string {
	return strconv.Itoa(int(port.Number)) + "/" + strings.ToLower(spec.EnumName(port.Protocol))
}

// publishProbe makes a check of a port of the container a check of the host port, because the check goes to
// the node's address. It reports whether the port of the check is published. Named ports need no change.
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

// numberOf returns the place of a port's number, or nil if the port has a name.
func numberOf(port *corev1.IntOrString) *int32 {
	if value, isNumber := port.GetValue().(*corev1.IntOrString_Number); isNumber {
		return &value.Number
	}
	return nil
}
