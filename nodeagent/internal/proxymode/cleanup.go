package proxymode

import (
	"errors"
	"fmt"

	"portolan.dev/nodeagent/dataplane/userspace"
)

// Cleanup removes the state that agents have left in the kernel, in any mode, and nothing else. No
// agent may be running.
func Cleanup(o Options) error {
	var errs []error
	for _, mode := range o.Modes {
		if has, err := o.hasKernelState(mode); !has {
			errs = append(errs, err)
			continue
		}
		plane, err := mode.Open(o.kernel(mode.Name))
		if err != nil {
			if has, look := mode.HasState(o.kernel(mode.Name)); has || look != nil { // otherwise the journal is from before a reboot
				errs = append(errs, fmt.Errorf("proxy mode %s: %w", mode.Name, err))
			}
			continue
		}
		errs = append(errs, plane.Cleanup(), plane.Close())
	}
	locals, err := o.locals()
	if locals != nil {
		err = locals.Close() // it also removes the state that planes in the kernel share
	}
	return errors.Join(append(errs, err)...)
}

// locals opens the routes of the userspace plane. Nil: the machine has none.
func (o *Options) locals() (userspace.Locals, error) {
	if o.Locals == nil {
		return nil, nil
	}
	options := o.kernel(Userspace)
	options.ServiceCIDRs = nil
	for _, r := range o.Kernel.ServiceCIDRs {
		if userspace.Within(o.UserspaceRanges, r) {
			options.ServiceCIDRs = append(options.ServiceCIDRs, r)
		}
	}
	locals, err := o.Locals(options)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return locals, err
}
