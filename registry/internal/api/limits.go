package api

import (
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
)

const (
	// envelope is the size of a request besides its object, with room for long names.
	envelope = 4 << 10
	// maxQuery is the limit of requests without an object: names, selectors and page tokens.
	maxQuery = 64 << 10
)

// maxRequests holds the limits of the requests of the methods that node agents or workloads may
// call, and of all methods of the kinds.
var maxRequests = func() map[string]int {
	limits := map[string]int{}
	pkg := string(registryv1.File_portolan_registry_v1_watch_proto.Package())
	for _, kind := range kinds.All {
		writes := map[string]bool{kind.Method(kinds.Create): true, kind.Method(kinds.Update): true, kind.Method(kinds.UpdateStatus): true}
		for method := range kind.Methods() {
			limit := maxQuery
			if writes[method] {
				limit = kind.MaxBytes + envelope
			}
			limits["/"+pkg+"."+kind.ServiceName()+"/"+method] = limit
		}
	}
	for _, method := range []string{
		registryv1.ChangeService_GetHead_FullMethodName, registryv1.ChangeService_Snapshot_FullMethodName, registryv1.ChangeService_ListChanges_FullMethodName,
		registryv1.ChangeService_Verify_FullMethodName,
		registryv1.DiscoveryService_RenderEnv_FullMethodName, registryv1.DiscoveryService_GetSettings_FullMethodName,
	} {
		limits[method] = maxQuery
	}
	return limits
}()

// MaxRequest returns the limit of the size of requests of a method in bytes, or 0 for methods that
// only operators and viewers may call, which have the server's limit. Requests to write an object may be
// as large as objects of the kind.
func MaxRequest(method string) int { return maxRequests[method] }
