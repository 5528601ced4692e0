package dockertest

import (
	"encoding/json"
	"net/netip"
)

// inspected has the fields of the output of docker inspect that decide about the State of a container.
type inspected struct {
	Name  string
	State struct {
		Running, Paused bool
		Health          *struct{ Status string }
	}
	Config          struct{ Labels map[string]string }
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
}

// State is the expected registration of a container.
type State struct {
	// Address is its address in the chosen network, see inspected.address.
	Address string
	// Ready is true if the container runs, is not paused, and its HEALTHCHECK, if it has one, succeeds.
	Ready bool
}

// Inspect returns the states of the lab's containers according to docker inspect, by their names without the
// mark. It shares no code with the registrar. Containers that do not run, or have no address in the chosen
// network, are left out.
func (l *Lab) Inspect() map[string]State {
	l.t.Helper()
	states := map[string]State{}
	names := l.Containers()
	if len(names) == 0 {
		return states
	}
	out, _ := l.command(append([]string{"container", "inspect"}, names...)...).Output() // it fails for removed ones, and prints the others
	var all []inspected
	if err := json.Unmarshal(out, &all); err != nil {
		l.t.Fatalf("docker inspect: %v: %s", err, out)
	}
	for _, c := range all {
		if address := c.address(); c.State.Running && address != "" {
			healthy := c.State.Health == nil || c.State.Health.Status == "healthy"
			states[l.Short(c.Name)] = State{Address: address, Ready: healthy && !c.State.Paused}
		}
	}
	return states
}

// address returns the address in the network of the label portolan.network, or in the only network, or "".
func (c *inspected) address() string {
	networks := c.NetworkSettings.Networks
	if wanted, named := c.Config.Labels["portolan.network"]; named {
		return networks[wanted].IPAddress
	}
	if len(networks) == 1 {
		for _, network := range networks {
			return network.IPAddress
		}
	}
	return ""
}

// Ranges returns the ranges of the lab's networks.
func (l *Lab) Ranges() []netip.Prefix {
	l.t.Helper()
	if len(l.Networks) == 0 {
		return nil
	}
	var networks []struct {
		IPAM struct {
			Config []struct{ Subnet netip.Prefix }
		}
	}
	out := l.Docker(append([]string{"network", "inspect"}, l.Networks...)...)
	if err := json.Unmarshal([]byte(out), &networks); err != nil {
		l.t.Fatalf("docker network inspect: %v: %s", err, out)
	}
	var ranges []netip.Prefix
	for _, network := range networks {
		for _, config := range network.IPAM.Config {
			ranges = append(ranges, config.Subnet)
		}
	}
	return ranges
}
