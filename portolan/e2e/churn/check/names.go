package check

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Names checks all records of a name server, by zone transfers.
type Names struct {
	Server netip.AddrPort
	// Zones are the zones to transfer: the zone of services and the reverse zones of their
	// addresses.
	Zones []string
}

// Name implements Checker.
func (Names) Name() string { return "names" }

// Check implements Checker.
func (c Names) Check(_ context.Context, want *model.World) ([]Finding, error) {
	wanted := want.Names()
	known := map[string]object.Key{}
	for key, lines := range wanted {
		for _, line := range lines {
			known[line] = key
		}
	}
	seen := map[string]bool{}
	for _, zone := range c.Zones {
		if err := c.read(zone, seen); err != nil {
			return nil, fmt.Errorf("zone %s: %w", zone, err)
		}
	}
	got := model.Lines{}
	for _, line := range slices.Sorted(maps.Keys(seen)) {
		key, ok := known[line]
		if !ok {
			key = serviceIn(line)
		}
		got[key] = append(got[key], line)
	}
	return compare(c.Name(), wanted, got, false), nil
}

// read collects the records of a zone that the model covers.
func (c Names) read(zone string, seen map[string]bool) error {
	envelopes, err := new(dns.Transfer).In(new(dns.Msg).SetAxfr(zone), c.Server.String())
	if err != nil {
		return err
	}
	for e := range envelopes {
		if e.Error != nil {
			err = e.Error
		}
		for _, record := range e.RR {
			if line := line(record); line != "" {
				seen[line] = true
			}
		}
	}
	return err
}

// line returns a record in the model's form, or "" for records that the model does not cover.
func line(record dns.RR) string {
	name := record.Header().Name
	switch r := record.(type) {
	case *dns.A:
		addr, _ := netip.AddrFromSlice(r.A)
		return notOwn(name, fmt.Sprintf("%s A %s", name, addr.Unmap()))
	case *dns.AAAA:
		addr, _ := netip.AddrFromSlice(r.AAAA)
		return notOwn(name, fmt.Sprintf("%s AAAA %s", name, addr))
	case *dns.CNAME:
		return fmt.Sprintf("%s CNAME %s", name, r.Target)
	case *dns.PTR:
		return fmt.Sprintf("%s PTR %s", name, r.Ptr)
	case *dns.SRV:
		if strings.HasPrefix(name, "_") {
			return fmt.Sprintf("%s SRV %d %s", name, r.Port, r.Target)
		}
	}
	return ""
}

// notOwn drops the addresses of the name server itself.
func notOwn(name, line string) string {
	if name == "ns.dns."+model.Zone {
		return ""
	}
	return line
}

// serviceIn guesses the service of a record.
func serviceIn(line string) object.Key {
	for field := range strings.FieldsSeq(line) {
		labels := strings.Split(strings.TrimSuffix(field, ".svc."+model.Zone), ".")
		if strings.HasSuffix(field, ".svc."+model.Zone) && len(labels) >= 2 {
			return object.Key{Kind: "Service", Namespace: labels[len(labels)-1], Name: labels[len(labels)-2]}
		}
	}
	return object.Key{Kind: "Service"}
}
