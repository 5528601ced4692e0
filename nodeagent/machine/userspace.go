package machine

import (
	"context"
	"errors"
	"io"
	"net/netip"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

// Userspace is the machine of this process without its kernel: all traffic is forwarded by the
// userspace plane. It works on every system.
type Userspace struct{}

// Addresses implements Machine.
func (Userspace) Addresses() ([]netip.Addr, error) { return interfaceAddresses() }

// WatchAddresses implements Machine.
func (Userspace) WatchAddresses(context.Context, func()) error {
	return errors.New("the kernel is not asked for notifications")
}

// Interfaces implements Machine.
func (Userspace) Interfaces() ([]Interface, error) { return interfaces() }

// Neighbors implements Machine.
func (Userspace) Neighbors(Interface, bool) (Neighbors, error) { return nil, errors.ErrUnsupported }

// HandOvers implements Machine.
func (Userspace) HandOvers() (HandOvers, error) { return nil, errors.ErrUnsupported }

// LocalRoutes implements Machine.
func (Userspace) LocalRoutes() (LocalRoutes, error) { return nil, errors.ErrUnsupported }

// Claim implements Machine. Nothing is claimed, because the kernel is left alone.
func (Userspace) Claim() io.Closer { return io.NopCloser(nil) }

// Locals implements Machine.
func (Userspace) Locals(kernelmode.Options) (Locals, error) {
	return nil, errors.ErrUnsupported
}

// Listeners implements Machine. On other systems than Linux it finds none.
func (Userspace) Listeners() []plan.Frontend { return listeners() }

// OpenSpeaker implements Machine.
func (Userspace) OpenSpeaker(SpeakerOptions) (Speaker, error) { return nil, errors.ErrUnsupported }

// Modes implements Machine.
func (Userspace) Modes() []kernelmode.Mode { return nil }
