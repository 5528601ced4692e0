package ipvs

import "portolan.dev/nodeagent/dataplane/kernel"

// Precede finds what a plane with these options has left in the kernel, for one
// of another kind that takes its place.
func Precede(o kernel.Options) (*kernel.Predecessor, error) {
	return kernel.Precede(o, func() (kernel.Balancer, error) { return open(o.Namespace) })
}
