package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"portolan.dev/nodeagent/plan"
)

// InvalidBackendRemedy is the advice for operators about an endpoint that WithoutInvalidBackends
// removes.
const InvalidBackendRemedy = "correct the endpoint"

// checkBackend returns an error if an address cannot be a backend of a frontend because it has no port or
// is of the other family. The error wraps ErrNotSupported.
func checkBackend(f plan.Frontend, backend netip.AddrPort) error {
	switch {
	case !backend.IsValid() || backend.Port() == 0:
		return fmt.Errorf("backend %s of %s has no port: %w", backend, f, ErrNotSupported)
	case backend.Addr().Is4() != f.Addr.Addr().Is4():
		return fmt.Errorf("backend %s of %s: %w", backend, f, errors.Join(ErrNotSupported, syscall.EAFNOSUPPORT))
	}
	return nil
}

// WithoutInvalidBackends returns the virtual server without the backends that cannot serve its
// frontend, and an error that names them. If there are none, it returns v itself.
func WithoutInvalidBackends(v *plan.VirtualServer) (*plan.VirtualServer, error) {
	invalid := func(r plan.RealServer) bool { return checkBackend(v.Frontend, r.Addr) != nil }
	if !slices.ContainsFunc(v.Reals, invalid) {
		return v, nil
	}
	var errs []error
	next := *v
	next.Reals = nil
	for _, r := range v.Reals {
		if err := checkBackend(v.Frontend, r.Addr); err != nil {
			errs = append(errs, err)
			continue
		}
		next.Reals = append(next.Reals, r)
	}
	return &next, errors.Join(errs...)
}
