package plan_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// TestChangesAddUpToTheTable checks that the changes that a table returns add up to its state, in
// batches of any size, while services are added, changed and removed. Each change must change its
// frontend, and the order of events must not matter. The table must keep nothing of removed
// services, because an agent outlives them.
func TestChangesAddUpToTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, real := plan.NewTable(), map[plan.Key]*plan.VirtualServer{}
		type wanted struct {
			created int64
			servers []*plan.VirtualServer
		}
		services := map[object.Name]wanted{}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			name := object.Name{Namespace: "default", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
			w := wanted{created: int64(name.Name[0]) % 2}
			seen := map[plan.Key]bool{}
			for range rapid.IntRange(0, 3).Draw(t, "servers") {
				v := virtualServer(t)
				if v.Service = name; !seen[v.Key] {
					seen[v.Key] = true
					w.servers = append(w.servers, v)
				}
			}
			services[name] = w
			table.Set(name, w.created, w.servers)
			if rapid.Bool().Draw(t, "more in this batch") {
				continue
			}
			for _, c := range table.Changes().Frontends {
				equal := true
				for _, a := range plan.Audiences {
					key := plan.Key{Frontend: c.Frontend, Audience: a}
					equal = equal && plan.Same(real[key], c.Servers[a])
					if real[key] = c.Servers[a]; c.Servers[a] == nil {
						delete(real, key)
					}
				}
				if equal {
					t.Fatalf("%s has not changed", c.Frontend)
				}
			}
			if err := same(&plan.State{Servers: real}, table.State()); err != nil {
				t.Fatalf("changes and table differ: %v", err)
			}
		}
		fresh := plan.NewTable()
		for name, w := range services {
			fresh.Set(name, w.created, w.servers)
		}
		if err := same(fresh.State(), table.State()); err != nil {
			t.Fatalf("the order matters: %v", err)
		}
		for name := range services {
			table.Set(name, 0, nil)
		}
		table.Changes()
		if !reflect.DeepEqual(table, plan.NewTable()) {
			t.Fatalf("kept of services that are gone: %+v", table)
		}
	})
}

func TestOldestServiceKeepsItsFrontend(t *testing.T) {
	server := func(name string) []*plan.VirtualServer {
		return []*plan.VirtualServer{{
			Key:        plan.Key{Frontend: plan.Frontend{Addr: netip.MustParseAddrPort("192.0.2.9:80"), Protocol: plan.TCP}},
			Attributes: plan.Attributes{Service: object.Name{Namespace: "default", Name: name}},
		}}
	}
	older, newer := object.Name{Namespace: "default", Name: "older"}, object.Name{Namespace: "default", Name: "newer"}
	table := plan.NewTable()
	table.Set(newer, 2, server("newer"))
	table.Changes()
	table.Set(older, 1, server("older"))
	if c := table.Changes().Frontends; len(c) != 1 || c[0].Any() == nil || c[0].Any().Service != older {
		t.Errorf("changes %v, want one of the frontend", c)
	}
	if got := table.Conflicts(newer); len(got) != 1 || !strings.Contains(got[0], "default/older") {
		t.Errorf("conflicts of the newer one: %q", got)
	}
	if got := table.Conflicts(older); len(got) != 0 {
		t.Errorf("conflicts of the older one: %q", got)
	}
	if got := fmt.Sprint(table.Competitors(older)); got != "[default/newer]" {
		t.Errorf("rivals %s", got)
	}
	table.Set(older, 1, nil)
	if got := table.Owner(server("")[0].Frontend); got != newer {
		t.Errorf("owner %s after the older one went", got)
	}
}

// TestANodePortOfTwoServices plans two services that have one node port for different protocols. Both
// are served, because a frontend has a protocol.
func TestANodePortOfTwoServices(t *testing.T) {
	facts := &plan.Facts{Node: "n1", NodePorts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	table := plan.NewTable()
	names := map[corev1.Protocol]object.Name{}
	for i, protocol := range []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP} {
		ip := fmt.Sprint("10.96.0.", i+1)
		svc := &corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("svc-", i)},
			Spec: &corev1.ServiceSpec{
				Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: ip, ClusterIps: []string{ip},
				Ports: []*corev1.ServicePort{{Port: 53, Protocol: protocol, NodePort: 30053}},
			},
		}
		names[protocol] = object.Name{Namespace: "default", Name: svc.GetMetadata().GetName()}
		result := plan.Build(svc, nil, facts)
		if len(result.Problems) > 0 {
			t.Fatal(result.Problems)
		}
		table.Set(result.Service, int64(i+1), result.Servers)
	}
	for protocol, name := range names {
		of := map[corev1.Protocol]plan.Protocol{corev1.Protocol_PROTOCOL_TCP: plan.TCP, corev1.Protocol_PROTOCOL_UDP: plan.UDP}[protocol]
		frontend := plan.Frontend{Addr: netip.MustParseAddrPort("192.0.2.1:30053"), Protocol: of}
		if got := table.Owner(frontend); got != name {
			t.Errorf("port 30053 is served for %v by %v, want %v", protocol, got, name)
		}
		if got := table.Conflicts(name); len(got) > 0 {
			t.Errorf("conflicts of %v: %q", name, got)
		}
	}
}
