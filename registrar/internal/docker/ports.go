package docker

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// portsOf returns the ports at which the container listens: the ports of its labels, or all exposed ports if
// it has no labels of ports.
func (l *labelSet) portsOf(c *container, named []source.Port, p *problems) []source.Port {
	ports := named
	if !l.hasPortLabels() {
		ports = append(l.ports, l.exposed(c)...)
	}
	slices.SortStableFunc(ports, func(a, b source.Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	ports = unique(ports, p)
	switch {
	case len(ports) == 0 && !l.isAsked(): // such as a client in a Compose project; it is not a problem
	case len(ports) == 0:
		p.add("", source.ReasonNoPorts, "it has no port, so it is not registered: add the label %sNAME, or expose a port in its image", labelPort)
	case len(ports) > labels.MaxPorts:
		p.add("", source.ReasonAmbiguous, "it has %d ports, and a workload has at most %d: name those that are meant with labels %sNAME", len(ports), labels.MaxPorts, labelPort)
		return nil
	}
	return ports
}

// hasPortLabels reports whether the container has labels of ports, readable or not.
func (l *labelSet) hasPortLabels() bool {
	for name := range l.values {
		if strings.HasPrefix(name, labels.Port) {
			return true
		}
	}
	return false
}

// exposed returns the ports that the image or the user exposes or publishes.
func (l *labelSet) exposed(c *container) []source.Port {
	if l.onlyNamed {
		return nil
	}
	texts := map[string]bool{}
	for text := range c.Config.ExposedPorts {
		texts[text] = true
	}
	for text := range c.NetworkSettings.Ports {
		texts[text] = true
	}
	var ports []source.Port
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		number, _, _ := strings.Cut(text, "/")
		if l.skipped[number] {
			continue
		}
		if read, err := labels.Ports("", text); err == nil { // the engine has validated the text
			ports = append(ports, read...)
		}
	}
	return ports
}

// unique removes the ports that have the name of an earlier port.
func unique(ports []source.Port, p *problems) []source.Port {
	seen := map[string]source.Port{}
	return slices.DeleteFunc(ports, func(port source.Port) bool {
		first, again := seen[port.Name]
		if !again {
			seen[port.Name] = port
			return false
		}
		p.add("", source.ReasonInvalid, "two of its ports, %s and %s, have the name %q: the second one is left out", labels.NameOf(first), labels.NameOf(port), port.Name)
		return true
	})
}
