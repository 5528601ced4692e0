package kernel

import "portolan.dev/nodeagent/dataplane/kernelmode"

// Mode returns the mode of a balancer for agents, from functions that call New and OpenPredecessor. The
// function hasState looks for servers in a namespace.
func Mode(name string, open func(Options) (*Plane, error), precede func(Options) (*Predecessor, error), hasState func(namespace string) (bool, error)) kernelmode.Mode {
	return kernelmode.Mode{
		Name:     name,
		HasState: func(o kernelmode.Options) (bool, error) { return hasState(o.Namespace) },
		Open: func(o kernelmode.Options) (kernelmode.Plane, error) {
			p, err := open(o)
			if err != nil {
				return nil, err // a nil *Plane in the interface would not compare equal to nil
			}
			return p, nil
		},
		OpenPredecessor: func(o kernelmode.Options) (kernelmode.Predecessor, error) {
			p, err := precede(o)
			if err != nil {
				return nil, err // as above
			}
			return p, nil
		},
	}
}
