package systemd

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// section is the section of unit files that has the keys.
const section = "Service"

// spell returns the key of a label, for messages.
func spell(label string) string { return labels.Systemd.Spell(label) }

// description has the values of the keys in a unit's files.
type description struct {
	labels.Settings
	addresses []string
	problems  []source.Problem
	// refused is true if the unit is not registered, because its X-Portolan-Address or
	// X-Portolan-Namespace cannot be read. The node's own address, or the default namespace, would be
	// wrong.
	refused bool
}

// describe reads the keys of a unit from the assignments in its files, in the order in which systemd reads
// them. As for all settings of systemd with one value, the last assignment wins, and an empty value removes
// the assignments before it.
func describe(unit string, all []assignment) description {
	r := &reader{unit: unit, values: map[string]string{}}
	given := false // X-Portolan-Service is assigned
	for _, a := range all {
		if !strings.HasPrefix(strings.ToLower(a.key), strings.ToLower(labels.Systemd.Prefix)) {
			continue
		}
		if a.section != section {
			r.problem(a.key, "it is in section [%s]; move it to [%s]", a.section, section)
			continue
		}
		label := labels.Systemd.Name(a.key)
		given = given || label == labels.Service
		r.values[label] = a.value
	}
	if given && r.values[labels.Service] == "" {
		return description{} // a drop-in removes the registration
	}
	maps.DeleteFunc(r.values, func(_, value string) bool { return value == "" })
	return r.read()
}

// reader turns the keys of one unit into a description.
type reader struct {
	unit   string
	values map[string]string // by the names of package labels
	out    description
}

func (r *reader) problem(key, format string, args ...any) {
	r.out.problems = append(r.out.problems, source.Problem{Object: r.unit, Field: key, Reason: source.ReasonInvalid, Message: key + ": " + fmt.Sprintf(format, args...)})
}

func (r *reader) read() description {
	if len(r.values) > 0 && r.values[labels.Service] == "" {
		r.problem(spell(labels.Service), "is missing, so the unit's other keys have no effect; name the service that the unit belongs to")
	}
	neverReady := r.expand()
	l := labels.Reader{Object: r.unit, Spelling: labels.Systemd, Spell: spell}
	read, problems := l.Read(r.values)
	r.out.Settings = read
	r.out.NeverReady = cmp.Or(r.out.NeverReady, neverReady)
	r.out.problems = append(r.out.problems, problems...)
	r.out.refused = r.out.refused || read.Misplaced
	if text, ok := r.values[labels.Address]; ok {
		addresses, err := parseAddresses(text)
		if err != nil {
			r.problem(spell(labels.Address), "%v", err)
			r.out.refused = true
		}
		r.out.addresses = addresses
	}
	return r.out
}

// expand replaces the specifiers in all values, and removes the values in which it cannot. If one of them is
// the check of readiness, expand returns the reason why the unit never becomes ready.
func (r *reader) expand() (neverReady string) {
	for _, label := range slices.Sorted(maps.Keys(r.values)) {
		value, err := expand(r.values[label], r.unit)
		if err == nil {
			r.values[label] = value
			continue
		}
		if label == labels.Address || label == labels.Namespace {
			r.out.refused = true
			err = fmt.Errorf("%w; so the unit is not registered", err)
		}
		r.problem(spell(label), "%v", err)
		delete(r.values, label)
		if label == labels.Ready {
			neverReady = fmt.Sprintf("%s cannot be read: %v", spell(label), err)
		}
	}
	return neverReady
}

// parseAddresses reads one address, or one address of each family separated by spaces.
func parseAddresses(text string) ([]string, error) {
	var list []string
	families := map[bool]bool{} // by Is4
	for _, field := range strings.Fields(text) {
		addr, err := netip.ParseAddr(field)
		switch {
		case err != nil:
			return nil, fmt.Errorf("want an IP address, or one of each family with a space between, such as 10.0.0.7 or \"10.0.0.7 fd00::7\": %w", err)
		case addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr.IsLinkLocalUnicast():
			return nil, fmt.Errorf("%s is no address that other machines reach", addr)
		case families[addr.Is4()]:
			return nil, fmt.Errorf("has two addresses of one family; want at most one of each")
		}
		families[addr.Is4()] = true
		list = append(list, addr.String())
	}
	return list, nil
}
