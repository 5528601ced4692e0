package terms

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/probe"
	"portolan.dev/services/spec"
)

// The words. Those that end in a dot are followed by a name.
const (
	Service   = "service"   // name of the service
	Namespace = "namespace" // its namespace
	Port      = "port."     // port.http = 8000, or 53/udp
	Label     = "labels."   // labels.tier = front
	Weight    = "weight"    // 0-65535
	Ready     = "ready"     // a check in the form of probe.Parse
	Drain     = "drain"     // 10s
)

// maxDrain is the longest drain. A pod that is never deleted would stay in the slices as terminating.
const maxDrain = time.Hour

// Terms is what was written about a workload.
type Terms struct {
	Service   string        // empty: none that could be read
	Namespace string        // empty: not given
	Ports     []source.Port // each with another name
	Labels    map[string]string
	Weight    *uint32
	Probe     *corev1.Probe
	// NeverReady is why the workload may not become ready; empty: it may.
	NeverReady string
	Drain      time.Duration // zero: not given
}

// Reader reads words.
type Reader struct {
	// Object is the name of the container or unit, for problems.
	Object string
	// Spell returns a word as the source's users write it, such as "portolan.port.http", for problems.
	Spell func(word string) string
	// Known are further words that only the source knows. The reader skips them.
	Known []string

	terms    Terms
	problems []source.Problem
}

// Read returns the terms and the words that could not be read.
func (r *Reader) Read(words map[string]string) (Terms, []source.Problem) {
	r.terms, r.problems = Terms{Labels: map[string]string{}}, nil
	for _, word := range slices.Sorted(maps.Keys(words)) {
		value := strings.TrimSpace(words[word])
		if err := r.read(word, value); err != nil {
			r.problems = append(r.problems, source.Problem{
				Object: r.Object, Field: r.Spell(word), Reason: source.ReasonInvalid, Message: fmt.Sprintf("%s=%q: %v", r.Spell(word), shorten(value), err),
			})
		}
	}
	return r.terms, r.problems
}

func (r *Reader) read(word, value string) error {
	t := &r.terms
	switch {
	case word == Service:
		return set(&t.Service, value, value, spec.RFC1035Label(value))
	case word == Namespace:
		return set(&t.Namespace, value, value, spec.DNSLabel(value))
	case word == Weight:
		return r.weight(value)
	case word == Ready:
		return r.ready(value)
	case word == Drain:
		return r.drain(value)
	case strings.HasPrefix(word, Port):
		return t.addPorts(strings.TrimPrefix(word, Port), value)
	case strings.HasPrefix(word, Label):
		return r.label(strings.TrimPrefix(word, Label), value)
	case slices.Contains(r.Known, word):
		return nil
	}
	return fmt.Errorf("is not known; words are %s", r.words())
}

// words lists the words as users write them.
func (r *Reader) words() string {
	var list []string
	for _, word := range append([]string{Service, Namespace, Port, Label, Weight, Ready, Drain}, r.Known...) {
		if strings.HasSuffix(word, ".") {
			word += "NAME"
		}
		list = append(list, r.Spell(word))
	}
	return strings.Join(list, ", ")
}

// set stores a value unless there is something against it.
func set[T any](field *T, value T, text, against string) error {
	if against != "" {
		return fmt.Errorf("%q %s", shorten(text), against)
	}
	*field = value
	return nil
}

func (r *Reader) weight(value string) error {
	number, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return fmt.Errorf("want a number between 0 and 65535")
	}
	weight := uint32(number)
	r.terms.Weight = &weight
	return nil
}

func (r *Reader) ready(value string) (err error) {
	if r.terms.Probe, err = probe.Parse(value); err != nil {
		r.terms.NeverReady = fmt.Sprintf("%s cannot be read", r.Spell(Ready))
	}
	return err
}

func (r *Reader) drain(value string) error {
	drain, err := time.ParseDuration(value)
	if err != nil || drain < time.Second || drain > maxDrain {
		return fmt.Errorf("want a duration between 1s and %s, such as 10s", maxDrain)
	}
	r.terms.Drain = drain
	return nil
}

func (r *Reader) label(name, value string) error {
	if against := spec.QualifiedName(name); against != "" {
		return fmt.Errorf("%q %s", shorten(name), against)
	}
	if against := spec.LabelValue(value); against != "" {
		return fmt.Errorf("%q %s", shorten(value), against)
	}
	r.terms.Labels[name] = value
	return nil
}

// shorten shortens a text that somebody else wrote, which may be of any length.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
