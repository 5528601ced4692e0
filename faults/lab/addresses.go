package lab

// Registries returns the address of each registry's API.
func (l *Lab) Registries() []string {
	return []string{l.apiAddresses("registry-0"), l.apiAddresses("registry-1")}
}

// Allocator returns the address of the allocator's API.
func (l *Lab) Allocator() string { return l.apiAddresses("allocator-0") }

// NATS returns the URLs of the NATS servers, separated by commas.
func (l *Lab) NATS() string { return natsURL(l.brokers...) }

// RunsDaemon reports whether the machine runs a daemon of Portolan.
func (m *Machine) RunsDaemon() bool { return ports[programOf(m.Name)] > 0 }
