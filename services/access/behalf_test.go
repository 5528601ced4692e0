package access

import (
	"testing"

	"portolan.dev/services/kit/identity"
)

// TestWhatKubeapiDoesForOthers checks which calls kubeapi may make on behalf of its clients. It is the border that keeps
// a client of the API of Kubernetes from methods that this API does not have, and from the identities of daemons.
func TestWhatKubeapiDoesForOthers(t *testing.T) {
	const services = "portolan.registry.v1.ServiceService"
	for name, c := range map[string]struct {
		actor, represented identity.Role
		service, method    string
		may                bool
	}{
		"a read for a viewer":             {identity.KubeAPI, identity.Viewer, services, "GetService", true},
		"a write for an operator":         {identity.KubeAPI, identity.Operator, services, "CreateService", true},
		"by an operator":                  {identity.Operator, identity.Viewer, services, "GetService", false},
		"by the registry":                 {identity.Registry, identity.Viewer, services, "GetService", false},
		"for a daemon":                    {identity.KubeAPI, identity.EndpointCtl, services, "GetService", false},
		"for itself":                      {identity.KubeAPI, identity.KubeAPI, services, "GetService", false},
		"a watch":                         {identity.KubeAPI, identity.Viewer, services, "WatchServices", false},
		"a kind that Kubernetes has not":  {identity.KubeAPI, identity.Operator, "portolan.registry.v1.TokenService", "CreateToken", false},
		"another service of the registry": {identity.KubeAPI, identity.Operator, "portolan.registry.v1.BulkService", "Write", false},
		"another daemon's":                {identity.KubeAPI, identity.Operator, "portolan.allocator.v1.AllocatorService", "Allocate", false},
		"a name that is only similar":     {identity.KubeAPI, identity.Operator, "ServiceService", "GetService", false},
	} {
		reason := cannotRepresent(identity.ID{Role: c.actor}, identity.ID{Role: c.represented}, c.service, c.method)
		if (reason == "") != c.may {
			t.Errorf("%s: %q", name, reason)
		}
	}
}
