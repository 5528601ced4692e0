package access_test

import (
	"slices"
	"testing"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
)

// TestSubjects checks that only registries may publish changes, that an agent may publish only
// its own heartbeat, and that a role without permissions is not a user of the server.
func TestSubjects(t *testing.T) {
	const followed, heartbeats = "test.rep.>", "test.hb.*"
	for role, want := range map[identity.Role]access.Permissions{
		identity.Allocator:   {Subscribe: []string{followed}},
		identity.DNSSvc:      {Subscribe: []string{followed}},
		identity.LBCtl:       {Subscribe: []string{followed}},
		identity.Edge:        {Subscribe: []string{followed}},
		identity.KubeAPI:     {Subscribe: []string{followed}},
		identity.Registrar:   {Subscribe: []string{followed}},
		identity.LBProvider:  {},
		identity.EndpointCtl: {Subscribe: []string{followed, heartbeats}},
		identity.NodeAgent:   {Publish: []string{"test.hb.n1"}, Subscribe: []string{followed}},
		identity.Operator:    {},
		identity.Viewer:      {},
		identity.Monitor:     {},
		identity.NATS:        {},
		identity.NATSRoute:   {},
		identity.Postgres:    {},
	} {
		got, err := access.SubjectsOf("test", identity.ID{Role: role, Name: "n1"})
		if err != nil || !slices.Equal(got.Publish, want.Publish) || !slices.Equal(got.Subscribe, want.Subscribe) {
			t.Errorf("%s may %+v, %v; want %+v", role, got, err, want)
		}
	}
	registry, err := access.SubjectsOf("test", identity.ID{Role: identity.Registry})
	if err != nil || !slices.Contains(registry.Publish, "test.chg.>") || !slices.Contains(registry.Publish, "test.rep.head") ||
		slices.Contains(registry.Publish, ">") || slices.Contains(registry.Subscribe, ">") {
		t.Errorf("a registry may %+v, %v", registry, err)
	}
	if _, err := access.SubjectsOf("a b", identity.ID{Role: identity.Registry}); err == nil {
		t.Error("a prefix that is none is accepted")
	}
	want := []identity.Role{identity.Registry, identity.Allocator, identity.EndpointCtl, identity.LBCtl, identity.DNSSvc, identity.NodeAgent, identity.Edge, identity.KubeAPI, identity.Registrar}
	if got := access.RolesUsingNATS(); !slices.Equal(got, want) {
		t.Errorf("%v use NATS, want %v", got, want)
	}
}
