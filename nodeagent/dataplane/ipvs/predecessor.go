package ipvs

import "portolan.dev/nodeagent/dataplane/kernel"

// OpenPredecessor reads the state that a plane with these options has left in the kernel, for a
// plane of another kind that replaces it.
func OpenPredecessor(o kernel.Options) (*kernel.Predecessor, error) {
	return kernel.OpenPredecessor(o, func() (kernel.Balancer, error) { return open(o.Namespace) })
}
