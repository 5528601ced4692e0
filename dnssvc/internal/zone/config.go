package zone

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/services/kit/guard"
)

// PodMode is the kind of names that pods have.
type PodMode string

// Modes of pod records.
const (
	PodsDisabled PodMode = "disabled" // pods have no names
	PodsInsecure PodMode = "insecure" // the address in the name is the answer, whether or not such a pod exists
	PodsVerified PodMode = "verified" // existing pods have names
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *PodMode) UnmarshalText(text []byte) error {
	switch mode := PodMode(text); mode {
	case PodsDisabled, PodsInsecure, PodsVerified:
		*m = mode
		return nil
	}
	return errors.New("want disabled, insecure or verified")
}

// Config is the configuration of a table.
type Config struct {
	// Zones are the zones in which services have names, at least one. PTR records name the first.
	Zones []string
	// Reverse are the ranges of addresses that have PTR records.
	Reverse []netip.Prefix
	// TTL of all records and of their absence, in seconds.
	TTL uint32
	// Pods is the kind of names that pods have. Default PodsDisabled.
	Pods PodMode
	// EmptyHeadlessExists answers the name of a headless service without ready endpoints with
	// NODATA instead of NXDOMAIN.
	EmptyHeadlessExists bool
	// Nameservers are the addresses of ns.dns.<zone>.
	Nameservers []netip.Addr
	// Guard catches panics of the work for one object.
	Guard *guard.Guard
}

// svcLabel and podLabel are the labels that the specification reserves below a zone.
const (
	svcLabel = "\x03svc"
	podLabel = "\x03pod"

	// PrimaryLabels and MailboxLabels, put before the name of the first zone, make the names of the
	// primary name server and of its mailbox.
	PrimaryLabels = "\x02ns\x03dns"
	MailboxLabels = "\x0ahostmaster"
)

// schemaVersion is the version of the Kubernetes DNS specification that the records follow.
const schemaVersion = "1.1.0"

// zones returns the zones of the configuration: first the zones for services, then the reverse
// ones.
func (c Config) zones() ([]Zone, error) {
	if len(c.Zones) == 0 {
		return nil, errors.New("no zone is given")
	}
	var names []string
	for _, text := range c.Zones {
		name, err := ParseName(text)
		if err != nil {
			return nil, err
		}
		if name == "\x00" {
			return nil, errors.New("the root zone cannot be served")
		}
		names = append(names, name)
	}
	forward := len(names)
	for _, p := range c.Reverse {
		if p.Bits() < 1 {
			return nil, fmt.Errorf("reverse range %s: give the ranges that are in use", p)
		}
		names = append(names, withoutSubdomains(reverseZones(p), names[forward:])...)
	}
	// A later range may contain an earlier one.
	names = append(names[:forward:forward], withoutSubdomains(names[forward:], nil)...)
	zones := make([]Zone, len(names))
	for i, name := range names {
		for _, other := range names[:i] {
			if isSubdomain(name, other) || isSubdomain(other, name) {
				return nil, fmt.Errorf("zones %s and %s: one contains the other", Text(other), Text(name))
			}
		}
		zones[i] = Zone{Name: name, MName: PrimaryLabels + names[0], RName: MailboxLabels + names[0], Reverse: i >= forward}
	}
	return zones, nil
}

// withoutSubdomains returns names without those that are at or below another name of the list, or
// at or below a name in have.
func withoutSubdomains(names, have []string) []string {
	var out []string
	for i, name := range names {
		covered := slices.ContainsFunc(have, func(h string) bool { return isSubdomain(name, h) })
		for j, other := range names {
			covered = covered || j != i && isSubdomain(name, other) && (name != other || j < i)
		}
		if !covered {
			out = append(out, name)
		}
	}
	return out
}

// isSubdomain reports whether name is at or below zone.
func isSubdomain(name, zone string) bool {
	for len(name) > len(zone) {
		name = Parent(name)
	}
	return name == zone && strings.HasSuffix(name, zone)
}
