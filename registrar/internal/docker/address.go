package docker

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// place is the addresses and ports at which other machines reach a workload.
type place struct {
	addresses   []string
	hostNetwork bool
	published   bool // the ports are host ports of the node
	ports       []source.Port
}

// placeOf returns the place at which other machines reach the container's ports. It returns false if there is
// no such place.
func (r *reader) placeOf(c *container, l *labelSet, ports []source.Port, p *problems) (place, bool) {
	publish := l.flag(labels.Publish, p)
	owner := c
	if id := c.networkOf(); id != "" {
		if owner = r.lookUp(id); owner == nil {
			p.add("", source.ReasonNoAddress, "it uses the network of the container %s, which does not run: start that one, then this one", shorten(id))
			return place{}, false
		}
	}
	switch {
	case owner.HostConfig.NetworkMode == "host":
		return place{hostNetwork: true, ports: ports}, true
	case publish:
		return r.published(owner, ports, p)
	}
	addresses := r.addressesOf(owner, l, p)
	return place{addresses: addresses, ports: ports}, len(addresses) > 0
}

// addressesOf returns the addresses of a container in its chosen network, see networkName.
func (r *reader) addressesOf(c *container, l *labelSet, p *problems) []string {
	name, found := r.networkName(c, l, p)
	if !found {
		return nil
	}
	var addresses []string
	network := c.NetworkSettings.Networks[name]
	four, errFour := netip.ParseAddr(network.IPAddress)
	if errFour == nil && four.Is4() && four.IsGlobalUnicast() {
		addresses = append(addresses, four.String())
	}
	six, errSix := netip.ParseAddr(network.GlobalIPv6Address)
	if errSix == nil && six.Is6() && !six.Is4In6() && six.Zone() == "" && six.IsGlobalUnicast() {
		addresses = append(addresses, six.String())
	}
	if len(addresses) == 0 {
		p.add(l.from[labels.Network], source.ReasonNoAddress, "it has no address in the network %q: connect it to another one, or publish its ports and add %s=true", shorten(name), labelPublish)
	}
	return addresses
}

// networkName returns the name of the network in which a container is registered: the network of its label,
// the network of Options, or the only network. It never guesses between several networks, because
// connections to an address that other machines do not reach would hang.
func (r *reader) networkName(c *container, l *labelSet, p *problems) (string, bool) {
	names := slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	if wanted, given := l.values[labels.Network]; given {
		name, found := findNetwork(c, strings.TrimSpace(wanted))
		if !found {
			p.add(l.spell(labels.Network), source.ReasonNoAddress, "%s=%q: it is not connected to this network, only to %s", l.spell(labels.Network), shorten(wanted), list(names))
		}
		return name, found
	}
	if name, found := findNetwork(c, r.options.Network); found {
		return name, true
	}
	switch len(names) {
	case 0:
		p.add("", source.ReasonNoAddress, "it is not connected to a network: docker network connect NETWORK %s", p.object)
		return "", false
	case 1:
		return names[0], true
	}
	p.add(labelNetwork, source.ReasonAmbiguous, "it is connected to several networks, %s: add the label %s with the one whose address others reach", list(names), labelNetwork)
	return "", false
}

// findNetwork returns the name of the container's network that the user calls name. The user may write the
// name that the engine has, or the name in the Compose file, to which the engine prepends the project.
func findNetwork(c *container, name string) (string, bool) {
	candidates := []string{name}
	if project := c.Config.Labels[composeProject]; project != "" {
		candidates = append(candidates, project+"_"+name)
	}
	for _, candidate := range candidates {
		if _, connected := c.NetworkSettings.Networks[candidate]; connected && name != "" {
			return candidate, true
		}
	}
	return "", false
}

// list joins names for a message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return shorten(strings.Join(names, ", "))
}
