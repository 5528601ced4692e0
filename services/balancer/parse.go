package balancer

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/nearest"
	"portolan.dev/services/object"
)

// Problem is an annotation that has no effect, or another effect than its value.
type Problem struct {
	// Annotation is the annotation's name in the service.
	Annotation string
	// Message describes the problem and its remedy.
	Message string
	Kind    ProblemKind
}

// ProblemKind is the kind of a problem.
type ProblemKind int

// Kinds of problems.
const (
	// Invalid is a value against the rules of its annotation.
	Invalid ProblemKind = iota
	// NotHonoured is a valid value, or an unknown name, without an effect.
	NotHonoured
)

// Parse returns the settings of a service for the edge, and the problems of its annotations in the order of
// the table.
func Parse(svc *corev1.Service) (Settings, []Problem) {
	p := parser{svc: svc, settings: defaults(svc), names: map[string]string{}}
	for i := range table {
		p.read(&table[i])
	}
	p.inferCheckProtocol()
	p.settings.complete()
	p.checkTogether()
	p.checkUnknown(Prefix, awsPrefix)
	return p.settings, p.problems
}

// parser parses the annotations of one service.
type parser struct {
	svc      *corev1.Service
	settings Settings
	problems []Problem
	// names has the names of the read annotations in the service, by Portolan's own names.
	names map[string]string
}

func (p *parser) invalid(name, value, format string, args ...any) {
	p.problems = append(p.problems, Problem{name, fmt.Sprintf("invalid value %.128q: %s", value, fmt.Sprintf(format, args...)), Invalid})
}

func (p *parser) notHonoured(name, format string, args ...any) {
	p.problems = append(p.problems, Problem{name, fmt.Sprintf(format, args...), NotHonoured})
}

// value returns the value of an annotation.
func (p *parser) value(name string) string { return p.svc.GetMetadata().GetAnnotations()[name] }

// read reads the annotation of a row.
func (p *parser) read(row *Annotation) {
	found := row.given(p.svc.GetMetadata().GetAnnotations())
	if len(found) == 0 {
		return
	}
	if row.By == ByNobody {
		p.notHonoured(found[0].name, "the edge ends connections, and passes no packets on: use the class %s with externalTrafficPolicy Local, or %s, for backends that have to know the address of the client", ClassPool, nameProxyProtocol)
		return
	}
	first := found[0]
	if first.set == nil {
		return
	}
	if why := first.set(&reader{&p.settings, p.svc.GetSpec().GetPorts()}, first.value); why != "" {
		p.invalid(first.name, first.value, "%s", why)
		return
	}
	p.names[row.Name] = first.name
	if !first.neutral {
		p.readOthers(row, found[1:])
	}
}

// readOthers reads further aliases of a row. It reports a problem if one of them would change the settings
// that the first alias has set.
func (p *parser) readOthers(row *Annotation, others []given) {
	for _, other := range others {
		next := p.settings
		if why := other.set(&reader{&next, p.svc.GetSpec().GetPorts()}, other.value); why != "" {
			p.invalid(other.name, other.value, "%s", why)
			continue
		}
		if reflect.DeepEqual(next, p.settings) {
			continue
		}
		first := p.names[row.Name]
		p.invalid(other.name, other.value, "it says something else than the annotation %s: change one, or set %s, which decides", first, row.Name)
		p.settings.Internal = p.settings.Internal || next.Internal // the safe one
	}
}

// inferCheckProtocol sets the protocol of checks with a path to HTTP, unless the service sets a protocol.
func (p *parser) inferCheckProtocol() {
	check := &p.settings.Check
	if _, set := p.names[nameCheckProtocol]; check.Path != "" && !set {
		check.Protocol = CheckHTTP
	}
	if check.Path == "" && check.Protocol >= CheckHTTP {
		check.Path = "/"
	}
}

// checkTogether reports combinations of annotations that are invalid or have no effect.
func (p *parser) checkTogether() {
	s := &p.settings
	if s.Check.Timeout >= s.Check.Interval {
		name := p.names[nameCheckTimeout] // the default is always less
		p.invalid(name, p.value(name), "must be less than the interval of checks, which is %s", brief(s.Check.Interval))
		s.Check.Timeout = min(defaultCheckTimeout, s.Check.Interval/2)
	}
	if name, set := p.names[nameTLSPorts]; set && !s.TLS {
		p.invalid(name, p.value(name), "there is no certificate for these ports: name one by the annotation %s, or take this one away", nameTLSCert)
	}
	for _, port := range p.svc.GetSpec().GetPorts() {
		if name := p.names[nameTLSPorts]; len(s.Certificates) > 0 && s.EndsTLS(port) && len(s.CertificatesOf(port)) == 0 {
			p.invalid(name, p.value(name), "there is no certificate for the port %d: name one by the annotation %s", port.GetPort(), nameTLSCert)
		}
	}
	p.hasEffect(s.TLS, "without "+nameTLSCert, nameTLSPolicy)
	p.hasEffect(s.BackendProtocol.IsTLS(), "unless the backend protocol is ssl or https", nameBackendCA, nameServerName)
	p.hasEffect(!s.BackendProtocol.IsHTTP(), "with the backend protocol "+s.BackendProtocol.String()+", by which backends get the client's address in the header X-Forwarded-For", nameProxyProtocol)
	p.hasEffect(s.AccessLog.Enabled, "unless access logs are enabled", nameLogInterval, nameLogDir, nameLogPrefix, nameLogFormat)
	p.hasEffect(s.Drain.Enabled, "unless connections drain", nameDrainTimeout)
	p.hasEffect(s.Check.Enabled, "unless backends are checked", nameCheckProtocol, nameCheckPath, nameCheckPort, nameCheckInterval, nameCheckTimeout, nameHealthy, nameUnhealthy)
	p.hasEffect(s.Check.Protocol >= CheckHTTP || !s.Check.Enabled, "unless checks are requests: see "+nameCheckProtocol, nameCheckPath)
	if policy, _ := PolicyOf(s.TLSPolicy); s.TLS && len(policy.LeftOut) > 0 {
		p.notHonoured(p.names[nameTLSPolicy], "the policy lacks the cipher suites %s at the edge: clients that know no others of its suites cannot connect", strings.Join(policy.LeftOut, ", "))
	}
}

// hasEffect reports annotations as without effect, with the reason, unless ok is true.
func (p *parser) hasEffect(ok bool, why string, names ...string) {
	for _, own := range names {
		if name, set := p.names[own]; set && !ok {
			p.notHonoured(name, "has no effect %s", why)
		}
	}
}

// maxUnknown is the number of unknown annotations that are reported. A service can have thousands.
const maxUnknown = 10

// checkUnknown reports annotations with one of the prefixes that are not in the table.
func (p *parser) checkUnknown(prefixes ...string) {
	reported := 0
	for _, name := range slices.Sorted(maps.Keys(p.svc.GetMetadata().GetAnnotations())) {
		prefix := prefixOf(name)
		if !slices.Contains(prefixes, prefix) || known[name] {
			continue
		}
		if reported++; reported > maxUnknown {
			return
		}
		text := "is unknown, and nothing acts on it"
		if meant := nearest.Name(strings.TrimPrefix(name, prefix), knownBelow[prefix]); meant != "" {
			text += ": did you mean " + prefix + meant + "?"
		}
		p.notHonoured(name, "%s", text)
	}
}

// prefixOf returns the known prefix that a name begins with, or "".
func prefixOf(name string) string {
	for _, prefix := range []string{Prefix, awsPrefix} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// known has all names of the table and the name of the annotation that lbctl writes. knownBelow has the
// parts of these names after their prefix, by prefix.
var known, knownBelow = func() (map[string]bool, map[string][]string) {
	all, below := map[string]bool{object.AnnotationBalancerProvider: true}, map[string][]string{}
	for _, row := range table {
		all[row.Name] = true
		for _, alias := range row.Aliases {
			all[alias.Name] = true
		}
	}
	for name := range all {
		if prefix := prefixOf(name); prefix != "" && name != object.AnnotationBalancerProvider {
			below[prefix] = append(below[prefix], strings.TrimPrefix(name, prefix))
		}
	}
	return all, below
}()
