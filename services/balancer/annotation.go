package balancer

import (
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// Classes of load balancers that Portolan serves itself. A service without a class has ClassPool.
const (
	// ClassPool gives services addresses at which nodes forward.
	ClassPool = "portolan.dev/pool"
	// ClassEdge gives services addresses at which edges listen.
	ClassEdge = "portolan.dev/edge"
)

// ClassOf returns the class of a service's load balancer.
func ClassOf(svc *corev1.Service) string {
	if class := svc.GetSpec().GetLoadBalancerClass(); class != "" {
		return class
	}
	return ClassPool
}

// Annotation is a row of the table.
type Annotation struct {
	// Name is Portolan's own name of the annotation; "": there is none, because Portolan ignores the
	// annotation.
	Name    string
	Aliases []Alias
	// Values is the syntax, Default the meaning of a service without the annotation, and Effect one
	// sentence, for people.
	Values, Default, Effect string
	// From is the moment from which a change at a live service acts. No change ends a connection or a request.
	From Moment
	By   Actor
	set  setter // nil: the actor reads the value itself
}

// Alias is a name that a cloud gives an annotation.
type Alias struct {
	Name   string
	Values string // syntax of its values; "": the syntax of the row
	set    setter
}

// Actor acts on an annotation.
type Actor int

// Actors.
const (
	ByEdge     Actor = iota // the edge, for services of ClassEdge
	ByProvider              // lbctl's provider of addresses, for both classes
	ByNobody                // only clouds
)

// Moment is a moment from which a change acts.
type Moment int

// Moments.
const (
	FromNow        Moment = iota // also for connections and requests under way
	FromRequest                  // for new connections, and for the next request of each connection of HTTP
	FromConnection               // for new connections
)

// String returns the moment for people.
func (m Moment) String() string {
	return [...]string{"now", "the next request", "the next connection"}[m]
}

// setter changes the settings according to a value. It returns the rule that the value violates, or "".
type setter func(r *reader, text string) string

// reader reads the annotations of one service into settings.
type reader struct {
	settings *Settings
	ports    []*corev1.ServicePort
}

// Annotations returns the rows of the table.
func Annotations() []Annotation { return slices.Clone(table) }

// given is an annotation that a service has.
type given struct {
	name, value string
	set         setter
	neutral     bool
}

// given returns the names of a row that a service has with a value, Portolan's own first.
func (a *Annotation) given(annotations map[string]string) []given {
	var found []given
	add := func(name string, set setter, neutral bool) {
		if value := strings.TrimSpace(annotations[name]); name != "" && value != "" {
			found = append(found, given{name, value, set, neutral})
		}
	}
	add(a.Name, a.set, true)
	for _, alias := range a.Aliases {
		add(alias.Name, alias.set, false)
	}
	return found
}

// Internal returns the name of the annotation by which a service asks for an internal load balancer, which
// only clients of the internal network reach, or "" if it does not ask for one. If the service has
// Portolan's own annotation, it decides. Otherwise the annotation of any cloud is enough.
func Internal(svc *corev1.Service) string {
	for _, g := range internal.given(svc.GetMetadata().GetAnnotations()) {
		var s Settings
		g.set(&reader{settings: &s}, g.value)
		if s.Internal {
			return g.name
		}
		if g.neutral {
			return ""
		}
	}
	return ""
}
