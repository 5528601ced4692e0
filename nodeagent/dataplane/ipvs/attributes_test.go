package ipvs

import (
	"net/netip"
	"reflect"
	"testing"

	moby "github.com/moby/ipvs"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// use is the use of a property of the library's types by the balancer.
type use string

const (
	identifies use = "it identifies the server or backend"
	compared   use = "it is compared with the plan, or with the value that all servers or backends have"
	counts     use = "the kernel counts it"
	unread     use = "the library does not read it"
)

var serviceUses = map[string]use{
	"Address": identifies, "Protocol": identifies, "Port": identifies, "FWMark": identifies, "AddressFamily": identifies,
	"SchedName": compared, "Flags": compared, "Timeout": compared, "Netmask": compared,
	"PEName": unread, "Stats": counts,
}

var destinationUses = map[string]use{
	"Address": identifies, "Port": identifies, "AddressFamily": identifies,
	"Weight": compared, "ConnectionFlags": compared, "UpperThreshold": compared, "LowerThreshold": compared,
	"ActiveConnections": counts, "InactiveConnections": counts, "Stats": counts,
}

// TestEveryPropertyHasAUse checks that the balancer's use of each property of the library's types is known, so
// that a property that a later version of the library adds is not left out.
func TestEveryPropertyHasAUse(t *testing.T) {
	for _, of := range []struct {
		kind reflect.Type
		uses map[string]use
	}{{reflect.TypeFor[moby.Service](), serviceUses}, {reflect.TypeFor[moby.Destination](), destinationUses}} {
		for f := range of.kind.Fields() {
			if of.uses[f.Name] == "" {
				t.Errorf("%s.%s has no use", of.kind, f.Name)
			}
		}
		if of.kind.NumField() != len(of.uses) {
			t.Errorf("%s has %d properties, the table %d", of.kind, of.kind.NumField(), len(of.uses))
		}
	}
}

// TestComparedPropertiesAreInTheMirror changes each property that is compared. The mirror must differ.
func TestComparedPropertiesAreInTheMirror(t *testing.T) {
	for _, at := range []string{"10.96.0.1:80", "[fd00:96::1]:80"} {
		id := plan.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: plan.TCP}
		settings := kernel.Settings{Scheduler: "rr"}
		c := changeOf(&kernel.Op{Kind: kernel.AddServer, ID: kernel.ID{Frontend: id, For: id}, Settings: settings})
		if got := settingsOf(&c.Service); got != settings {
			t.Errorf("%s is read as %v, want %v", at, got, settings)
		}
		for name, of := range serviceUses {
			if of != compared {
				continue
			}
			for _, changed := range otherValues(c.Service, name) {
				if settingsOf(&changed) == settings {
					t.Errorf("%s: with another %s it is read as %v", at, name, settings)
				}
			}
		}
		addr := id.Addr
		d := destination(addr, 3)
		backend := kernel.Backend{Addr: addr, Weight: 3}
		if got := backendOf(plan.TCP, &d); got != backend {
			t.Errorf("%s is read as %v, want %v", at, got, backend)
		}
		for name, of := range destinationUses {
			if of != compared {
				continue
			}
			for _, changed := range otherValues(d, name) {
				if backendOf(plan.TCP, &changed) == backend {
					t.Errorf("%s: with another %s it is read as %v", at, name, backend)
				}
			}
		}
	}
}

// otherValues returns copies of a service or destination with other values of one property: for flags each flag
// that the kernel knows, except the one that it sets itself; for the forwarding method each method.
func otherValues[T any](from T, name string) (out []T) {
	change := func(set func(reflect.Value)) {
		to := from
		set(reflect.ValueOf(&to).Elem().FieldByName(name))
		out = append(out, to)
	}
	switch name {
	case "SchedName":
		change(func(v reflect.Value) { v.SetString("lc") })
	case "Flags":
		for _, flag := range []uint64{0x1, 0x4, 0x8, 0x10, 0x20} {
			change(func(v reflect.Value) { v.SetUint(v.Uint() ^ flag) })
		}
	case "ConnectionFlags":
		for method := range uint64(5) {
			if method != moby.ConnectionFlagMasq {
				change(func(v reflect.Value) { v.SetUint(method) })
			}
		}
	default:
		change(func(v reflect.Value) {
			if v.CanInt() {
				v.SetInt(v.Int() + 1)
			} else {
				v.SetUint(v.Uint() + 1)
			}
		})
	}
	return out
}
