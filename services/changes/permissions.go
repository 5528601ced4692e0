package changes

import (
	"slices"

	"portolan.dev/services/kit/identity"
)

// Permissions lists the subjects that a daemon may publish and subscribe to on NATS. An empty list
// permits none.
type Permissions struct{ Publish, Subscribe []string }

// PermissionsOf returns the permissions that a NATS server should give an identity. Only a
// registry, with its relay, publishes changes, and only a node's agent publishes the node's
// heartbeats. Followers send no requests to NATS, so only registries can make the server write into
// the stream.
func PermissionsOf(prefix string, id identity.ID) (Permissions, error) {
	names, err := newSubjects(prefix)
	if err != nil {
		return Permissions{}, err
	}
	var may Permissions
	switch id.Role {
	case identity.Registry:
		may.Publish = append(names.streamAPI(), names.changes(), names.head())
		may.Subscribe = []string{Inbox(names.prefix, string(id.Role)) + ".>", names.heartbeats()}
	case identity.Allocator, identity.DNSSvc:
		may.Subscribe = []string{names.followed()}
	case identity.EndpointCtl:
		may.Subscribe = []string{names.followed(), names.heartbeats()}
	case identity.NodeAgent:
		may.Publish = []string{names.heartbeat(id.Name)}
		may.Subscribe = []string{names.followed()}
	}
	return may, nil
}

// Talkers returns the roles that use NATS.
func Talkers() []identity.Role {
	return slices.DeleteFunc(identity.Roles(), func(role identity.Role) bool {
		may, err := PermissionsOf(DefaultPrefix, identity.ID{Role: role, Name: "any"})
		return err != nil || len(may.Publish)+len(may.Subscribe) == 0
	})
}

// streamAPI returns the subjects of the JetStream requests that the relay sends, limited to its own
// stream.
func (s subjects) streamAPI() []string {
	stream := s.stream()
	return []string{
		"$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.CREATE." + stream, "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream,
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.API.DIRECT.GET." + stream, "$JS.API.DIRECT.GET." + stream + ".>",
	}
}

// Inbox returns the prefix of the subjects on which a daemon receives replies. Each daemon has its
// own prefix, so that a server can restrict the readers of each inbox.
func Inbox(prefix, daemon string) string { return "_INBOX_" + prefix + "_" + daemon }
