package docker

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

// portsOf returns the ports of a container inside of it: those that somebody has named, or all exposed ones.
func (w *words) portsOf(c *container, named []source.Port, p *problems) []source.Port {
	ports := named
	if !w.hasPortWords() {
		ports = append(w.ports, w.exposed(c)...)
	}
	slices.SortStableFunc(ports, func(a, b source.Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	ports = unique(ports, p)
	switch {
	case len(ports) == 0 && !w.isAsked(): // such as the client of a project
	case len(ports) == 0:
		p.add("", source.ReasonNoPorts, "it has no port, so it is not registered: add the label %s%sNAME, or expose a port in its image", prefix, terms.Port)
	case len(ports) > terms.MaxPorts:
		p.add("", source.ReasonAmbiguous, "it has %d ports, and a workload has at most %d: name those that are meant with labels %s%sNAME", len(ports), terms.MaxPorts, prefix, terms.Port)
		return nil
	}
	return ports
}

// hasPortWords reports whether there are words for ports, readable or not.
func (w *words) hasPortWords() bool {
	for word := range w.values {
		if strings.HasPrefix(word, terms.Port) {
			return true
		}
	}
	return false
}

// exposed returns the ports that the image, the user or a publication exposes.
func (w *words) exposed(c *container) []source.Port {
	if w.onlyNamed {
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
		if w.skipped[number] {
			continue
		}
		if read, err := terms.Ports("", text); err == nil { // the engine has checked them
			ports = append(ports, read...)
		}
	}
	return ports
}

// unique returns the ports without those that have the name of an earlier port.
func unique(ports []source.Port, p *problems) []source.Port {
	seen := map[string]source.Port{}
	return slices.DeleteFunc(ports, func(port source.Port) bool {
		first, again := seen[port.Name]
		if !again {
			seen[port.Name] = port
			return false
		}
		p.add("", source.ReasonInvalid, "two of its ports, %s and %s, have the name %q: the second one is left out", terms.NameOf(first), terms.NameOf(port), port.Name)
		return true
	})
}
