package changes

import (
	"slices"

	"portolan.dev/services/kit/identity"
)

// Permissions are the subjects that somebody may use on NATS; empty: none.
type Permissions struct{ Publish, Subscribe []string }

// PermissionsOf returns what a server of NATS should allow somebody, and only
// that. Changes are published by the relay of a registry alone, a heartbeat by
// the agent of its node alone. Who follows changes needs to ask nothing of NATS,
// so nobody but the registry can make the server write into the stream.
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

// Talkers are the roles that use NATS.
func Talkers() []identity.Role {
	return slices.DeleteFunc(identity.Roles(), func(role identity.Role) bool {
		may, err := PermissionsOf(DefaultPrefix, identity.ID{Role: role, Name: "any"})
		return err != nil || len(may.Publish)+len(may.Subscribe) == 0
	})
}

// streamAPI is what the relay asks of JetStream, about its own stream.
func (s subjects) streamAPI() []string {
	stream := s.stream()
	return []string{
		"$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.CREATE." + stream, "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream,
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.API.DIRECT.GET." + stream, "$JS.API.DIRECT.GET." + stream + ".>",
	}
}

// Inbox is the prefix of the subjects that answers to a daemon come on: private,
// so that a server can be told who may read which.
func Inbox(prefix, daemon string) string { return "_INBOX_" + prefix + "_" + daemon }
