package access

import (
	"fmt"
	"slices"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// observers are the roles that may read the metrics and health of every daemon.
var observers = addRoles(readers, identity.Monitor)

// Observe returns an error unless the caller may read the metrics and health of the daemon with the
// identity server. The daemon itself may, for its health check in a container. Other daemons and
// workloads may not, because metrics have the names of nodes, pools and methods, and a stolen key of
// one machine must not show the names of all machines.
func Observe(caller, server identity.ID) error {
	if caller == server || caller.Namespace == "" && slices.Contains(observers, caller.Role) {
		return nil
	}
	return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not read the metrics and health of %s: use a certificate of the role %s",
		caller.Role, caller, server.Path(), joinRoles(observers)))
}
