package access

import "portolan.dev/services/kit/identity"

// Table holds the roles that may call a method, by service and method.
type Table map[string]map[string][]identity.Role

// The sets of roles that the rows share.
var (
	operators = []identity.Role{identity.Operator}
	readers   = []identity.Role{identity.Operator, identity.Viewer}
	// followers may read the log.
	followers = []identity.Role{identity.Operator, identity.Viewer, identity.Allocator, identity.EndpointCtl, identity.DNSSvc, identity.NodeAgent}
	anybody   = []identity.Role{identity.Registry, identity.Allocator, identity.EndpointCtl, identity.DNSSvc, identity.NodeAgent, identity.Operator, identity.Viewer}
	// reporters may write Events.
	reporters = []identity.Role{identity.Operator, identity.Allocator, identity.EndpointCtl, identity.NodeAgent}
)

// with returns a copy of set with more roles added.
func with(set []identity.Role, more ...identity.Role) []identity.Role {
	return append(set[:len(set):len(set)], more...)
}

// Methods returns the table of all methods that Portolan serves.
func Methods() Table {
	return Table{
		"portolan.registry.v1.NamespaceService": {
			"CreateNamespace": operators, "UpdateNamespace": operators, "UpdateNamespaceStatus": operators, "DeleteNamespace": operators,
			"GetNamespace": readers, "ListNamespaces": readers, "WatchNamespaces": readers,
		},
		"portolan.registry.v1.ServiceService": {
			"CreateService": operators, "UpdateService": operators, "UpdateServiceStatus": operators, "DeleteService": operators,
			"GetService": with(readers, identity.Allocator), "ListServices": readers, "WatchServices": readers,
		},
		"portolan.registry.v1.PodService": {
			"CreatePod": operators, "UpdatePod": operators, "DeletePod": operators,
			"UpdatePodStatus": with(operators, identity.NodeAgent),
			"GetPod":          with(readers, identity.Allocator, identity.NodeAgent), "ListPods": readers, "WatchPods": readers,
		},
		"portolan.registry.v1.NodeService": {
			"CreateNode": with(operators, identity.NodeAgent), "UpdateNode": operators, "DeleteNode": operators,
			"UpdateNodeStatus": with(operators, identity.NodeAgent, identity.EndpointCtl),
			"GetNode":          with(readers, identity.NodeAgent), "ListNodes": readers, "WatchNodes": readers,
		},
		"portolan.registry.v1.EndpointsService": {
			"CreateEndpoints": with(operators, identity.EndpointCtl), "UpdateEndpoints": with(operators, identity.EndpointCtl), "DeleteEndpoints": with(operators, identity.EndpointCtl),
			"GetEndpoints": readers, "ListEndpoints": readers, "WatchEndpoints": readers,
		},
		"portolan.registry.v1.EndpointSliceService": {
			"CreateEndpointSlice": with(operators, identity.EndpointCtl), "UpdateEndpointSlice": with(operators, identity.EndpointCtl),
			"DeleteEndpointSlice": with(operators, identity.EndpointCtl),
			"GetEndpointSlice":    readers, "ListEndpointSlices": readers, "WatchEndpointSlices": readers,
		},
		"portolan.registry.v1.LeaseService": {
			"CreateLease": with(operators, identity.EndpointCtl), "UpdateLease": with(operators, identity.EndpointCtl), "DeleteLease": operators,
			"GetLease": with(readers, identity.EndpointCtl), "ListLeases": readers, "WatchLeases": readers,
		},
		"portolan.registry.v1.EventService": {
			"CreateEvent": reporters, "UpdateEvent": operators, "DeleteEvent": operators,
			"GetEvent": readers, "ListEvents": readers, "WatchEvents": readers,
		},
		"portolan.registry.v1.ApplyService":     {"Apply": operators},
		"portolan.registry.v1.BackupService":    {"Export": operators, "Import": operators},
		"portolan.registry.v1.ChangeService":    {"GetHead": followers, "Snapshot": followers, "ListChanges": followers},
		"portolan.registry.v1.AgentService":     {"ListAgents": readers},
		"portolan.registry.v1.DiscoveryService": {"RenderEnv": readers, "GetSettings": readers},

		"portolan.allocator.v1.AllocatorService": {
			"Allocate": with(operators, identity.Registry), "Confirm": with(operators, identity.Registry), "Release": with(operators, identity.Registry),
			"ListAllocations": readers, "ListPools": readers,
			"CreatePool": operators, "UpdatePool": operators, "DeletePool": operators,
		},
		"portolan.endpoints.v1.EndpointControllerService": {"ExplainService": readers, "GetStatus": readers, "Resync": operators},
		"portolan.dns.v1.DNSService":                      {"Query": readers, "GetStatus": readers},
		"portolan.nodeagent.v1.NodeAgentService": {
			"GetStatus": readers, "GetPlan": readers, "Resync": operators, "SetDraining": operators,
		},

		"grpc.health.v1.Health":                    {"Check": anybody, "List": anybody, "Watch": anybody},
		"grpc.reflection.v1.ServerReflection":      {"ServerReflectionInfo": anybody},
		"grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": anybody},
	}
}
