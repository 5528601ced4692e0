package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"portolan.dev/nodeagent/plan"
)

// MisfitRemedy is the advice for operators about an endpoint that Fits and Sane reject.
const MisfitRemedy = "correct the endpoint"

// Fits returns an error if an address cannot be a backend of a frontend because it has no port or
// is of the other family. The error wraps ErrNotSupported.
func Fits(f plan.Frontend, backend netip.AddrPort) error {
	switch {
	case !backend.IsValid() || backend.Port() == 0:
		return fmt.Errorf("backend %s of %s has no port: %w", backend, f, ErrNotSupported)
	case backend.Addr().Is4() != f.Addr.Addr().Is4():
		return fmt.Errorf("backend %s of %s: %w", backend, f, errors.Join(ErrNotSupported, syscall.EAFNOSUPPORT))
	}
	return nil
}

// Sane returns the virtual server without the backends that do not fit, and an error that names
// them. If all backends fit, it returns v itself.
func Sane(v *plan.VirtualServer) (*plan.VirtualServer, error) {
	misfit := func(r plan.RealServer) bool { return Fits(v.Frontend, r.Addr) != nil }
	if !slices.ContainsFunc(v.Reals, misfit) {
		return v, nil
	}
	var errs []error
	next := *v
	next.Reals = nil
	for _, r := range v.Reals {
		if err := Fits(v.Frontend, r.Addr); err != nil {
			errs = append(errs, err)
			continue
		}
		next.Reals = append(next.Reals, r)
	}
	return &next, errors.Join(errs...)
}
