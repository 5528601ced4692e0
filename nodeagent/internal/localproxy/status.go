package localproxy

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// Status returns the state of the proxy and its addresses, or nil if there is neither.
func (p *Proxies) Status() *nodeagentv1.LocalProxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := maps.Clone(p.local)
	maps.Copy(all, p.wanted)
	if p.current == nil && len(all) == 0 {
		return nil
	}
	s := &nodeagentv1.LocalProxy{Connected: p.current != nil, Since: timestamppb.New(p.since), Draining: p.draining}
	for _, addr := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		_, served := slices.BinarySearchFunc(p.served, addr, netip.Addr.Compare)
		s.Addresses = append(s.Addresses, &nodeagentv1.ProxiedAddress{Address: addr.String(), Local: p.local[addr], Served: served, Error: p.errs[addr]})
	}
	return s
}

// register registers the metrics.
func (p *Proxies) register(reg prometheus.Registerer) {
	gauge := func(name, help string, value func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("portolan_nodeagent_proxied_addresses", "Load-balancer addresses that are local to the node for a proxy on it.", func() int { return len(p.Kept()) })
	gauge("portolan_nodeagent_served_addresses", "Load-balancer addresses that a proxy on the node takes connections at.", func() int { return len(p.Served()) })
}
