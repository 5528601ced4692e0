package labels

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

// MaxDrain is the longest drain. It is limited because a pod that drains stays in the slices as terminating.
const MaxDrain = time.Hour

// Settings are the values of a workload's labels.
type Settings struct {
	Service   string // empty: none that could be read
	Namespace string // empty: not given
	// Misplaced is true if the namespace was given and cannot be read. Then the workload may not be
	// registered, because in another namespace it would be a backend of another service.
	Misplaced bool
	Ports     []source.Port // with different names
	Labels    map[string]string
	Weight    *uint32
	Probe     *corev1.Probe
	// NeverReady is the reason why the workload may not become ready. Empty: it may.
	NeverReady string
	Drain      time.Duration // zero: not given
}

// Reader reads the labels of one workload.
type Reader struct {
	// Object is the name of the container or unit, for problems.
	Object string
	// Spelling is the spelling of the source.
	Spelling Spelling
	// Spell returns a label as the user wrote it, such as "portolan.port.http", for problems.
	Spell func(name string) string

	settings Settings
}

// Read returns the settings of labels by their names, and a problem for each label that cannot be read. It
// ignores labels that only the source reads, such as Network.
func (r *Reader) Read(values map[string]string) (Settings, []source.Problem) {
	r.settings = Settings{Labels: map[string]string{}}
	var problems []source.Problem
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := strings.TrimSpace(values[name])
		if err := r.read(name, value); err != nil {
			problems = append(problems, source.Problem{
				Object: r.Object, Field: r.Spell(name), Reason: source.ReasonInvalid, Message: fmt.Sprintf("%s=%q: %v", r.Spell(name), shorten(value), err),
			})
		}
	}
	return r.settings, problems
}

func (r *Reader) read(name, value string) error {
	switch found, suffix := rowOf(name); {
	case found == nil || r.Spelling.column(found) == "":
		return fmt.Errorf("is not known; words are %s", r.known())
	case found.read != nil:
		return found.read(r, suffix, value)
	}
	return nil
}

// known lists the labels that are known, as users write them.
func (r *Reader) known() string {
	var list []string
	for _, name := range r.Spelling.Names() {
		list = append(list, r.Spell(name))
	}
	return strings.Join(list, ", ")
}

func (r *Reader) readService(_, value string) error {
	if violation := spec.RFC1035Label(value); violation != "" {
		return fmt.Errorf("%q %s", shorten(value), violation)
	}
	r.settings.Service = value
	return nil
}

func (r *Reader) readNamespace(_, value string) error {
	if violation := spec.DNSLabel(value); violation != "" {
		r.settings.Misplaced = true
		return fmt.Errorf("%q %s; so it is not registered: in another namespace it would be a backend of another service", shorten(value), violation)
	}
	r.settings.Namespace = value
	return nil
}

// readPort adds the ports of a label, except for ports with a name that another port has.
func (r *Reader) readPort(name, value string) error {
	ports, err := Ports(name, value)
	for _, port := range ports {
		if slices.ContainsFunc(r.settings.Ports, func(p source.Port) bool { return p.Name == port.Name }) {
			err = fmt.Errorf("another port has the name %q; give each port a name of its own", port.Name)
			continue
		}
		r.settings.Ports = append(r.settings.Ports, port)
	}
	return err
}

func (r *Reader) readWeight(_, value string) error {
	number, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return fmt.Errorf("want a number between 0 and 65535")
	}
	weight := uint32(number)
	r.settings.Weight = &weight
	return nil
}

func (r *Reader) readReady(_, value string) (err error) {
	if r.settings.Probe, err = probe.Parse(value); err != nil {
		r.settings.NeverReady = fmt.Sprintf("%s cannot be read", r.Spell(Ready))
	}
	return err
}

func (r *Reader) readDrain(_, value string) error {
	drain, err := time.ParseDuration(value)
	if err != nil || drain < time.Second || drain > MaxDrain {
		return fmt.Errorf("want a duration between 1s and %s, such as 10s", MaxDrain)
	}
	r.settings.Drain = drain
	return nil
}

func (r *Reader) readPodLabel(key, value string) error {
	if violation := spec.QualifiedName(key); violation != "" {
		return fmt.Errorf("%q %s", shorten(key), violation)
	}
	if violation := spec.LabelValue(value); violation != "" {
		return fmt.Errorf("%q %s", shorten(value), violation)
	}
	r.settings.Labels[key] = value
	return nil
}

// shorten shortens a user's text, which may be of any length, for a message.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
