package access

import "strings"

// reads lists the methods that change nothing, although their names do not begin with Get, List or
// Watch.
var reads = map[string]bool{
	"/portolan.registry.v1.ChangeService/Verify":                      true,
	"/portolan.registry.v1.DiscoveryService/RenderEnv":                true,
	"/portolan.endpoints.v1.EndpointControllerService/ExplainService": true,
	"/portolan.dns.v1.DNSService/Query":                               true,
	"/grpc.health.v1.Health/Check":                                    true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":       true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":  true,
}

// Audited reports whether the audit log records successful calls of a method. It records calls that
// change something, calls that read objects of a private kind, and Export and Snapshot, each of which
// reads all objects that the caller may read. It also records methods that this package does not know,
// so that a new method is recorded until it is listed as a read.
func Audited(method string) bool {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if kind := kindOfService(service); kind != nil && kind.Private {
		return true
	}
	for _, verb := range []string{"Get", "List", "Watch"} {
		if strings.HasPrefix(name, verb) {
			return false
		}
	}
	return !reads[method]
}
