package kernel

import "portolan.dev/nodeagent/plan"

// Traffic is what has gone through a server since the kernel has it.
type Traffic struct {
	Connections uint64 // or flows, where the protocol knows no connections
	// In is from clients, Out to them. Zero where the balancer does not count it.
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
}

// Counted is the traffic of one server of the balancer.
type Counted struct {
	// Server is known by the balancer's address. A service has one for each of
	// its addresses, and another one for clients outside.
	Server   plan.Frontend
	Service  plan.ServiceName
	PortName string
	Traffic
}

// Traffic reads from the kernel what has gone through the servers that are there.
// Changes go on meanwhile, and a server that was made anew begins at zero. Those
// on loopback addresses are not counted.
func (p *Plane) Traffic() ([]Counted, error) {
	p.auditing.Lock() // one reader at a time
	defer p.auditing.Unlock()
	ids, out := p.counted()
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := p.balancer.Traffic(ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		out[i].Traffic = found[id.Frontend]
	}
	return out, nil
}

// counted lists the servers that services have now.
func (p *Plane) counted() (ids []ID, out []Counted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil
	}
	ids, out = make([]ID, 0, len(p.services)), make([]Counted, 0, len(p.services))
	for at, s := range p.services {
		f := p.fronts[s.id.For]
		if f == nil || s.Closed { // its clients are counted elsewhere
			continue
		}
		if v := f.wantedAt(s.id); v != nil {
			ids = append(ids, s.id)
			out = append(out, Counted{Server: at, Service: v.Service, PortName: v.PortName})
		}
	}
	return ids, out
}
