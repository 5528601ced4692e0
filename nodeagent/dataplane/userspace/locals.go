package userspace

import (
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// Locals makes virtual addresses local to the machine, so that the plane can listen at them.
type Locals interface {
	// Add makes an address local for one more socket, unless it is local anyway. The error is a
	// *NotLocalError or a *dataplane.NodeError if operators can do something about it.
	Add(netip.Addr) error
	// Release reverses one call of Add.
	Release(netip.Addr)
	// Check makes addresses local again that another program has changed.
	Check() error
	// Close ends everything. No address is in use any more.
	Close() error
}

// NotLocalError is the error of an address that is not local and cannot be made so.
type NotLocalError struct {
	Err error
	// Remedy is the advice for operators.
	Remedy string
}

// Error implements error.
func (e *NotLocalError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NotLocalError) Unwrap() error { return e.Err }

// makeLocal makes the frontend's address local, even if no server has backends, so that the kernel refuses its clients
// at once. The address of a node port is the node's own, or one that a router translates, so it is never made local.
func (f *frontend) makeLocal() error {
	locals, addr := f.plane.opts.Locals, f.key.Addr.Addr()
	if locals == nil || f.local || addr.IsLoopback() || f.exposure() == plan.NodePort {
		return nil
	}
	if err := locals.Add(addr); err != nil {
		return err
	}
	f.local = true
	return nil
}

// releaseLocal ends that for a frontend without servers and connections.
func (f *frontend) releaseLocal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.local {
		f.plane.opts.Locals.Release(f.key.Addr.Addr())
		f.local = false
	}
}

// exposure returns the reason why the node serves the frontend.
func (f *frontend) exposure() plan.Exposure {
	for _, s := range f.servers {
		if s.planned != nil {
			return s.planned.Exposure
		}
	}
	return plan.ClusterIP
}
