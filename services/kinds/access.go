package kinds

import (
	"iter"
	"strings"

	"portolan.dev/services/kit/identity"
)

// Verb is an operation of the API on a kind.
type Verb string

// The verbs. A kind has the methods of all verbs, and UpdateStatus only if its objects have a
// status.
const (
	Create       Verb = "Create"
	Get          Verb = "Get"
	List         Verb = "List"
	Watch        Verb = "Watch"
	Update       Verb = "Update"
	UpdateStatus Verb = "UpdateStatus"
	Delete       Verb = "Delete"
)

// Access lists, for each verb, the roles that may call its method besides operators and, if the
// method only reads and the kind is not private, viewers.
type Access map[Verb][]identity.Role

// ServiceName returns the name of the kind's gRPC service, such as "LeaseService".
func (k *Kind) ServiceName() string { return k.Name + "Service" }

// Method returns the name of a verb's method in the kind's service, such as "GetLease",
// "ListLeases" and "UpdatePodStatus".
func (k *Kind) Method(verb Verb) string {
	switch verb {
	case List, Watch:
		if k.Plural == strings.ToLower(k.Name) {
			return string(verb) + k.Name
		}
		return string(verb) + k.Name + "s"
	case UpdateStatus:
		return "Update" + k.Name + "Status"
	default:
		return string(verb) + k.Name
	}
}

// Methods yields the methods of the kind's service, with the roles that may call each.
func (k *Kind) Methods() iter.Seq2[string, []identity.Role] {
	return func(yield func(string, []identity.Role) bool) {
		for _, verb := range []Verb{Create, Get, List, Watch, Update, UpdateStatus, Delete} {
			if verb == UpdateStatus && !k.HasStatus() {
				continue
			}
			if !yield(k.Method(verb), k.roles(verb)) {
				return
			}
		}
	}
}

func (k *Kind) roles(verb Verb) []identity.Role {
	roles := []identity.Role{identity.Operator}
	if reads := verb == Get || verb == List || verb == Watch; reads && !k.Private {
		roles = append(roles, identity.Viewer)
	}
	return append(roles, k.Access[verb]...)
}
