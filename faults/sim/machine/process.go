package machine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	nodemachine "portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
)

// mode is the name of the mode that the machine's balancer implements.
const mode = "ipvs"

var errDead = errors.New("the process is dead")

// lock locks the machine. If the process is dead, it returns an error without locking.
func (p *Process) lock() error {
	p.machine.mu.Lock()
	if p.dead {
		p.machine.mu.Unlock()
		return errDead
	}
	return nil
}

// Addresses implements nodemachine.Machine.
func (p *Process) Addresses() ([]netip.Addr, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.machine.mu.Unlock()
	return slices.Clone(p.machine.addresses), nil
}

// WatchAddresses implements nodemachine.Machine.
func (p *Process) WatchAddresses(ctx context.Context, changed func()) error {
	if err := p.lock(); err != nil {
		return err
	}
	p.machine.watchers[p] = changed
	p.machine.mu.Unlock()
	<-ctx.Done()
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	delete(p.machine.watchers, p)
	return nil
}

// Interfaces implements nodemachine.Machine. The machine has no neighbours.
func (p *Process) Interfaces() ([]nodemachine.Interface, error) { return nil, nil }

// Neighbors implements nodemachine.Machine.
func (p *Process) Neighbors(nodemachine.Interface, bool) (nodemachine.Neighbors, error) {
	return nil, errors.ErrUnsupported
}

// OpenSpeaker implements nodemachine.Machine. The machine has no router.
func (p *Process) OpenSpeaker(nodemachine.SpeakerOptions) (nodemachine.Speaker, error) {
	return nil, errors.ErrUnsupported
}

// HandOvers implements nodemachine.Machine.
func (p *Process) HandOvers() (nodemachine.HandOvers, error) { return nil, errors.ErrUnsupported }

// LocalRoutes implements nodemachine.Machine.
func (p *Process) LocalRoutes() (nodemachine.LocalRoutes, error) { return nil, errors.ErrUnsupported }

// Claim implements nodemachine.Machine. A machine has one agent.
func (p *Process) Claim() io.Closer { return io.NopCloser(nil) }

// Locals implements nodemachine.Machine. No agent of a simulation forwards in userspace.
func (p *Process) Locals(kernelmode.Options) (nodemachine.Locals, error) {
	return nil, errors.ErrUnsupported
}

// Listeners implements nodemachine.Machine. No program listens on the machine.
func (p *Process) Listeners() []plan.Frontend { return nil }

// Modes implements nodemachine.Machine.
func (p *Process) Modes() []kernelmode.Mode {
	open := func() (kernel.Balancer, error) { return balancer{p}, nil }
	return []kernelmode.Mode{kernel.Mode(mode,
		func(o kernel.Options) (*kernel.Plane, error) { return kernel.NewOn(p, o, open) },
		func(o kernel.Options) (*kernel.Predecessor, error) { return kernel.OpenPredecessor(o, open) },
		func(string) (bool, error) { return false, nil },
	)}
}

// Routes implements kernel.Host.
func (p *Process) Routes() (kernel.RouteTable, error) { return routes{p}, nil }

// Flows implements kernel.Host.
func (p *Process) Flows() (kernel.FlowTable, error) { return flows{}, nil }

// Filter implements kernel.Host.
func (p *Process) Filter(_, _ []netip.Prefix) (kernel.PacketFilter, error) {
	return &filter{process: p, wanted: newRules(), references: map[packetfilter.Element]int{}}, nil
}

// Remains implements kernel.Host. The journal is never lost.
func (p *Process) Remains() (*packetfilter.Remains, error) { return &packetfilter.Remains{}, nil }

// Setting implements kernel.Host.
func (p *Process) Setting(name string) (string, error) {
	if err := p.lock(); err != nil {
		return "", err
	}
	defer p.machine.mu.Unlock()
	value, ok := p.machine.settings[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return value, nil
}

// Set implements kernel.Host.
func (p *Process) Set(name, value string) error {
	if err := p.lock(); err != nil {
		return err
	}
	defer p.machine.mu.Unlock()
	p.machine.settings[name] = value
	return nil
}

// Advice implements kernel.Host.
func (p *Process) Advice() []kernelmode.Setting { return nil }

// flows implements kernel.FlowTable. It is empty because the balancer tracks its own connections.
type flows struct{}

func (flows) Forget(_, _ []host.Flow) error { return nil }
func (flows) Close()                        {}

// routes implements kernel.RouteTable.
type routes struct{ *Process }

func (r routes) Read() error {
	err := r.lock()
	if err == nil {
		r.machine.mu.Unlock()
	}
	return err
}

func (r routes) Has(p netip.Prefix) bool {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	return r.machine.routes[p]
}

func (r routes) All() (all []netip.Prefix) {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	for p := range r.machine.routes {
		all = append(all, p)
	}
	return all
}

func (r routes) Add(p netip.Prefix) error {
	if err := r.lock(); err != nil {
		return err
	}
	defer r.machine.mu.Unlock()
	r.machine.routes[p] = true
	return nil
}

func (r routes) Delete(p netip.Prefix) error {
	if err := r.lock(); err != nil {
		return err
	}
	defer r.machine.mu.Unlock()
	delete(r.machine.routes, p)
	return nil
}

func (r routes) Addresses() (map[netip.Addr]bool, error) {
	all, err := r.Process.Addresses()
	local := map[netip.Addr]bool{}
	for _, a := range all {
		local[a] = true
	}
	return local, err
}

func (routes) Lost() <-chan struct{} { return nil }
func (routes) Close()                {}
