package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// Complete returns an error that names each method of the served services without a row in the
// table, and each row of those services without a method.
func (t Table) Complete(services map[string]grpc.ServiceInfo) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(services)) {
		rows, left := t[name], maps.Clone(t[name])
		for _, method := range services[name].Methods {
			if len(rows[method.Name]) == 0 {
				errs = append(errs, fmt.Errorf("access: nobody may call %s/%s: give it a row", name, method.Name))
			}
			delete(left, method.Name)
		}
		for _, method := range slices.Sorted(maps.Keys(left)) {
			errs = append(errs, fmt.Errorf("access: there is a row for %s/%s, which does not exist", name, method))
		}
	}
	return errors.Join(errs...)
}

// Admit returns an error unless the role of the caller of ctx may call method, the full name of a
// gRPC method such as /portolan.dns.v1.DNSService/Query. The error is Unauthenticated if the
// caller's certificate gives no identity, and PermissionDenied if the role is not listed for the
// method.
func (t Table) Admit(ctx context.Context, method string) error {
	id, err := identity.Caller(ctx)
	if err != nil {
		return apierr.Unauthenticated(fmt.Sprintf("who calls %s is not clear: the client's certificate %v", method, err))
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	roles := t[service][name]
	if slices.Contains(roles, id.Role) {
		return nil
	}
	return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not call %s: use a certificate of the role %s", id.Role, id, method, either(roles)))
}

// either joins the names of roles with "or".
func either(roles []identity.Role) string {
	texts := make([]string, len(roles))
	for i, role := range roles {
		texts[i] = string(role)
	}
	return strings.Join(texts, " or ")
}
