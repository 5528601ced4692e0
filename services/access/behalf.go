package access

import (
	"fmt"
	"slices"
	"strings"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// representedRoles are the roles that kubeapi may represent: the roles of people and of programs that
// register objects. Daemons are not among them, because they call the registry's own API.
var representedRoles = spec.TokenRoles()

// cannotRepresent returns the reason why an identity may not call a method on behalf of another one,
// or "" if it may. The call also needs the permission of the represented identity.
func cannotRepresent(actor, represented identity.ID, service, method string) string {
	switch {
	case actor.Role != identity.KubeAPI:
		return "only kubeapi makes calls on behalf of others"
	case !slices.Contains(representedRoles, represented.Role):
		return fmt.Sprintf("kubeapi acts for %s only", joinRoles(representedRoles))
	case !kubernetesHas(service, method):
		return "the API of Kubernetes has nothing like it; use a certificate of that identity"
	}
	return ""
}

// kubernetesHas reports whether kubeapi needs a method for its clients. It needs the methods of the
// kinds that Kubernetes has, except Watch, because kubeapi serves watches from its own view.
func kubernetesHas(service, method string) bool {
	name, ok := strings.CutPrefix(service, "portolan.registry.v1.")
	if !ok {
		return false
	}
	return slices.ContainsFunc(kinds.All, func(kind *kinds.Kind) bool {
		return kind.ServiceName() == name && kind.InKubernetes && method != kind.Method(kinds.Watch)
	})
}

// CheckRepresented returns an error unless kubeapi may act for an identity.
func CheckRepresented(id identity.ID) error {
	if slices.Contains(representedRoles, id.Role) {
		return nil
	}
	return apierr.PermissionDenied(fmt.Sprintf("role %s (%s) may not use the API of Kubernetes: use a certificate of the role %s", id.Role, id, joinRoles(representedRoles)))
}
