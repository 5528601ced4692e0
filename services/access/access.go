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

// Complete says which methods of a server have no row, and which rows of its
// services no method.
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

// Admit says whether the caller of ctx may call a method, such as
// /portolan.dns.v1.DNSService/Query.
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

// either lists roles for a sentence.
func either(roles []identity.Role) string {
	texts := make([]string, len(roles))
	for i, role := range roles {
		texts[i] = string(role)
	}
	return strings.Join(texts, " or ")
}
