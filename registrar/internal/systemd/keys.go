package systemd

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

const (
	// prefix is the beginning of all keys.
	prefix = "X-Portolan-"
	// section is the section of unit files that has the keys.
	section = "Service"
	// address is the word for the unit's addresses, which only this source has.
	address = "address"
)

// keyOfWord is the key of each word. Keys that end in a dash are followed by a name, as words are that
// end in a dot.
var keyOfWord = map[string]string{
	terms.Service: prefix + "Service", terms.Namespace: prefix + "Namespace", terms.Port: prefix + "Port-", terms.Label: prefix + "Label-",
	terms.Weight: prefix + "Weight", terms.Ready: prefix + "Ready", terms.Drain: prefix + "Drain", address: prefix + "Address",
}

// spell returns the key of a word, for messages. A word without a key is a key that is not known.
func spell(word string) string {
	if key, ok := keyOfWord[word]; ok {
		return key
	}
	kind, name, _ := strings.Cut(word, ".")
	if key, ok := keyOfWord[kind+"."]; ok {
		return key + name
	}
	return word
}

// wordOf returns the word of a key, and the key itself if it has none. Case matters, as in all keys of
// systemd.
func wordOf(key string) string {
	for word, known := range keyOfWord {
		if name, ok := strings.CutPrefix(key, known); ok && (name == "" || strings.HasSuffix(word, ".")) {
			return word + name
		}
	}
	return key
}

// description is what a unit's files say about its registration.
type description struct {
	terms.Terms
	addresses []string
	problems  []source.Problem
	// refused says that there may be no workload, because X-Portolan-Address cannot be read and the
	// node's own address is not the unit's.
	refused bool
}

// describe reads the keys of a unit from its files' assignments, in the order in which systemd reads
// them. As in all settings of systemd that have one value, the last assignment wins, and an empty one
// removes what was assigned before.
func describe(unit string, all []assignment) description {
	r := &reader{unit: unit, words: map[string]string{}}
	given := false // X-Portolan-Service
	for _, a := range all {
		if !strings.HasPrefix(strings.ToLower(a.key), strings.ToLower(prefix)) {
			continue
		}
		if a.section != section {
			r.problem(a.key, "it is in section [%s]; move it to [%s]", a.section, section)
			continue
		}
		word := wordOf(a.key)
		given = given || word == terms.Service
		r.words[word] = a.value
	}
	if given && r.words[terms.Service] == "" {
		return description{} // a drop-in has taken the unit out
	}
	maps.DeleteFunc(r.words, func(_, value string) bool { return value == "" })
	return r.read()
}

// reader turns the keys of one unit into a description.
type reader struct {
	unit  string
	words map[string]string // values by word
	out   description
}

func (r *reader) problem(key, format string, args ...any) {
	r.out.problems = append(r.out.problems, source.Problem{Object: r.unit, Field: key, Reason: source.ReasonInvalid, Message: key + ": " + fmt.Sprintf(format, args...)})
}

func (r *reader) read() description {
	if len(r.words) > 0 && r.words[terms.Service] == "" {
		r.problem(spell(terms.Service), "is missing, so the unit's other keys have no effect; name the service that the unit belongs to")
	}
	neverReady := r.expand()
	t := terms.Reader{Object: r.unit, Spell: spell, Known: []string{address}}
	read, problems := t.Read(r.words)
	r.out.Terms = read
	r.out.NeverReady = cmp.Or(r.out.NeverReady, neverReady)
	r.out.problems = append(r.out.problems, problems...)
	if text, ok := r.words[address]; ok {
		addresses, err := parseAddresses(text)
		if err != nil {
			r.problem(spell(address), "%v", err)
			r.out.refused = true
		}
		r.out.addresses = addresses
	}
	return r.out
}

// expand replaces the specifiers in all values. Values in which it cannot are left out. It returns why
// the unit may never become ready, if that is so.
func (r *reader) expand() (neverReady string) {
	for _, word := range slices.Sorted(maps.Keys(r.words)) {
		value, err := expand(r.words[word], r.unit)
		if err == nil {
			r.words[word] = value
			continue
		}
		r.problem(spell(word), "%v", err)
		delete(r.words, word)
		if word == terms.Ready {
			neverReady = fmt.Sprintf("%s cannot be read: %v", spell(word), err)
		}
		r.out.refused = r.out.refused || word == address
	}
	return neverReady
}

// parseAddresses reads one address, or one of each family, separated by spaces.
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
