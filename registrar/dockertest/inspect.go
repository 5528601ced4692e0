package dockertest

import (
	"encoding/json"
	"net/netip"
)

// inspected is the part of the output of docker inspect that says what a container is to others.
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

// State is what others should see of a container.
type State struct {
	// Address is its address in the network that is meant.
	Address string
	// Ready says that it runs, is not paused and its HEALTHCHECK, if any, succeeds.
	Ready bool
}

// Inspect returns what docker inspect says of the containers of the lab, by their names without the mark,
// read by other code than the registrar's. Those that do not run, or have no address in the network that is
// meant, are left out.
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

// address returns the address in the network that the label names, or in the only one, or "".
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
