package docker

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/registrar/source"
)

// place is where a workload is reached.
type place struct {
	addresses   []string
	hostNetwork bool
	published   bool // the numbers of the ports are those of the node
	ports       []source.Port
}

// placeOf returns where the container's ports are reached by others, or false if there is no such place.
func (r *reader) placeOf(c *container, w *words, ports []source.Port, p *problems) (place, bool) {
	publish := w.flag(wordPublish, p)
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
	addresses := r.addressesOf(owner, w, p)
	return place{addresses: addresses, ports: ports}, len(addresses) > 0
}

// addressesOf returns the addresses of a container in the network that is meant.
func (r *reader) addressesOf(c *container, w *words, p *problems) []string {
	name, found := r.networkName(c, w, p)
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
		p.add(w.from[wordNetwork], source.ReasonNoAddress, "it has no address in the network %q: connect it to another one, or publish its ports and add %s%s=true", shorten(name), prefix, wordPublish)
	}
	return addresses
}

// networkName returns the network of a container that is meant: the one that its label names, the
// registrar's default, or the only one. One of several is never guessed, because an address of a network
// that others cannot reach swallows their connections.
func (r *reader) networkName(c *container, w *words, p *problems) (string, bool) {
	names := slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	if wanted, given := w.values[wordNetwork]; given {
		name, found := findNetwork(c, strings.TrimSpace(wanted))
		if !found {
			p.add(w.spell(wordNetwork), source.ReasonNoAddress, "%s=%q: it is not connected to this network, only to %s", w.spell(wordNetwork), shorten(wanted), list(names))
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
	p.add(prefix+wordNetwork, source.ReasonAmbiguous, "it is connected to several networks, %s: add the label %s%s with the one whose address others reach", list(names), prefix, wordNetwork)
	return "", false
}

// findNetwork returns the network of a container by its name, or by its name in the Compose file, which
// the engine knows with the project before it.
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

// list returns names for a message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return shorten(strings.Join(names, ", "))
}
