package access

import (
	"slices"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
)

// Permissions lists the subjects that a daemon may publish and subscribe to on NATS. An empty list
// permits none.
type Permissions struct{ Publish, Subscribe []string }

// SubjectsOf returns the permissions that a NATS server should give an identity. Only a registry's
// relay publishes changes, and only a node's agent publishes the node's heartbeats.
// Followers send no requests to NATS, so only registries can make the server write into the stream.
func SubjectsOf(prefix string, id identity.ID) (Permissions, error) {
	names, err := changes.NewSubjects(prefix)
	if err != nil {
		return Permissions{}, err
	}
	var permissions Permissions
	switch id.Role {
	case identity.Registry:
		permissions.Publish = append(names.StreamRequests(), names.Changes(), names.Head())
		permissions.Subscribe = []string{changes.Inbox(names.Prefix(), string(id.Role)) + ".>", names.Heartbeats()}
	case identity.Allocator, identity.LBCtl, identity.DNSSvc, identity.Edge, identity.KubeAPI, identity.Registrar:
		permissions.Subscribe = []string{names.Followed()}
	case identity.EndpointCtl:
		permissions.Subscribe = []string{names.Followed(), names.Heartbeats()}
	case identity.NodeAgent:
		permissions.Publish = []string{names.Heartbeat(id.Name)}
		permissions.Subscribe = []string{names.Followed()}
	}
	return permissions, nil
}

// RolesUsingNATS returns the roles that use NATS.
func RolesUsingNATS() []identity.Role {
	return slices.DeleteFunc(identity.Roles(), func(role identity.Role) bool {
		permissions, err := SubjectsOf(changes.DefaultPrefix, identity.ID{Role: role, Name: "any"})
		return err != nil || len(permissions.Publish)+len(permissions.Subscribe) == 0
	})
}
