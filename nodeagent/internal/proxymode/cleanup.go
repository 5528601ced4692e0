package proxymode

import "errors"

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
			errs = append(errs, err)
			continue
		}
		errs = append(errs, plane.Cleanup(), plane.Close())
	}
	return errors.Join(errs...)
}
