package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
)

// Table holds the roles that may call a method, by service and method. It is an rpc.Authorizer.
type Table map[string]map[string][]identity.Role

var _ rpc.Authorizer = Table(nil)

// The sets of roles that the rows share.
var (
	operators = []identity.Role{identity.Operator}
	readers   = []identity.Role{identity.Operator, identity.Viewer}
	// logReaders may read the log.
	logReaders = []identity.Role{identity.Operator, identity.Viewer, identity.Allocator, identity.EndpointCtl, identity.LBCtl, identity.DNSSvc, identity.NodeAgent, identity.Edge, identity.KubeAPI, identity.Registrar}
	// bulkWriters may make many writes in one call. Each of the writes needs its own permission, too.
	// Node agents, workloads and registrars write one object at a time: their requests have small limits and their
	// writes have rates, and a large request would be decoded before either applies to its objects.
	bulkWriters = addRoles(operators, identity.Allocator, identity.EndpointCtl)
	allRoles    = []identity.Role{identity.Registry, identity.Allocator, identity.EndpointCtl, identity.LBCtl, identity.DNSSvc, identity.NodeAgent, identity.Edge, identity.KubeAPI, identity.Operator, identity.Viewer, identity.Workload, identity.Registrar}
)

// addRoles returns a copy of set with more roles added.
func addRoles(set []identity.Role, more ...identity.Role) []identity.Role {
	return append(set[:len(set):len(set)], more...)
}

// Methods returns the table of all methods that Portolan serves. The rows of the kinds' services
// come from the table of kinds.
func Methods() Table {
	table := Table{
		"portolan.registry.v1.ApplyService":  {"Apply": operators},
		"portolan.registry.v1.BulkService":   {"Write": bulkWriters},
		"portolan.registry.v1.BackupService": {"Export": operators, "Import": operators},
		// Renew issues only a certificate of the caller's own identity.
		"portolan.registry.v1.CertificateService": {"Renew": identity.Renewing()},
		"portolan.registry.v1.ChangeService":      {"GetHead": logReaders, "Snapshot": logReaders, "ListChanges": logReaders, "Verify": logReaders},
		"portolan.registry.v1.AgentService":       {"ListAgents": readers},
		"portolan.registry.v1.DiscoveryService":   {"RenderEnv": addRoles(readers, identity.Workload), "GetSettings": addRoles(readers, identity.Workload)},

		"portolan.allocator.v1.AllocatorService": {
			// The allocator gives lbctl load-balancer addresses only.
			"Allocate": addRoles(operators, identity.Registry, identity.LBCtl),
			"Confirm":  addRoles(operators, identity.Registry, identity.LBCtl),
			"Release":  addRoles(operators, identity.Registry, identity.LBCtl),
			"Reserve":  addRoles(operators, identity.Registry),
			// A registry lists the values of a service that an update gives back, and the ranges of node ports.
			"ListAllocations": addRoles(readers, identity.Registry, identity.LBCtl), "ListPools": addRoles(readers, identity.Registry, identity.LBCtl),
			"CreatePool": operators, "UpdatePool": operators, "DeletePool": operators,
		},
		"portolan.endpoints.v1.EndpointControllerService": {"ExplainService": readers, "GetStatus": readers, "Resync": operators},
		"portolan.dns.v1.DNSService":                      {"Query": readers, "GetStatus": readers},
		"portolan.nodeagent.v1.NodeAgentService": {
			"GetStatus": readers, "GetPlan": readers, "Resync": operators, "SetDraining": operators,
			// The agent also checks that the caller may write the pod (CheckReport).
			"ReportCheck": addRoles(operators, identity.Workload, identity.Registrar),
		},
		"portolan.edge.v1.EdgeService":           {"GetStatus": readers},
		"portolan.registrar.v1.RegistrarService": {"GetStatus": readers},
		// The agent also checks that the edge runs on the agent's node.
		"portolan.nodeagent.v1.LocalProxyService":   {"Serve": {identity.Edge}},
		"portolan.loadbalancer.v1.AnnouncerService": {"Announce": {identity.NodeAgent}},

		"grpc.health.v1.Health":                    {"Check": allRoles, "List": allRoles, "Watch": allRoles},
		"grpc.reflection.v1.ServerReflection":      {"ServerReflectionInfo": allRoles},
		"grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": allRoles},
	}
	for _, kind := range kinds.All {
		table["portolan.registry.v1."+kind.ServiceName()] = maps.Collect(kind.Methods())
	}
	return table
}

// CheckComplete implements rpc.Authorizer. It returns an error that names each method of the served
// services without a row in the table, and each row of those services without a method.
func (t Table) CheckComplete(services map[string]grpc.ServiceInfo) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(services)) {
		rows, left := t[name], maps.Clone(t[name])
		for _, method := range services[name].Methods {
			if len(rows[method.Name]) == 0 {
				errs = append(errs, fmt.Errorf("access: no role may call %s/%s: add a row", name, method.Name))
			}
			delete(left, method.Name)
		}
		for _, method := range slices.Sorted(maps.Keys(left)) {
			errs = append(errs, fmt.Errorf("access: there is a row for %s/%s, which does not exist", name, method))
		}
	}
	return errors.Join(errs...)
}

// Authorize implements rpc.Authorizer. It returns an error unless the role of the caller of ctx may
// call method, the full name of a gRPC method such as /portolan.dns.v1.DNSService/Query. The error
// is Unauthenticated if the caller's certificate gives no identity, and PermissionDenied if the
// role is not listed for the method.
func (t Table) Authorize(ctx context.Context, method string) error {
	id, err := identity.Caller(ctx)
	if err != nil {
		return apierr.Unauthenticated(fmt.Sprintf("%s was called without an identity: the client's certificate %v", method, err))
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	roles := t[service][name]
	if actor, ok := identity.Actor(ctx); ok {
		if reason := cannotRepresent(actor, id, service, name); reason != "" {
			return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not call %s on behalf of %s: %s", actor.Role, actor, method, id.Path(), reason))
		}
	}
	switch {
	case !slices.Contains(roles, id.Role):
	case isBound(id) && !boundMay(service, name):
		return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) is bound to the namespace %q and may not call %s, which concerns all namespaces: use a certificate of the role %s", id.Role, id, id.Namespace, method, joinRoles(roles)))
	default:
		return nil
	}
	return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not call %s: use a certificate of the role %s", id.Role, id, method, joinRoles(roles)))
}

// joinRoles joins the names of roles with "or".
func joinRoles(roles []identity.Role) string {
	texts := make([]string, len(roles))
	for i, role := range roles {
		texts[i] = string(role)
	}
	return strings.Join(texts, " or ")
}
