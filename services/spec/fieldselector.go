package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// FieldSelector selects objects of one kind by the values of a few fields. The zero value selects
// all objects.
type FieldSelector struct{ terms []fieldTerm }

type fieldTerm struct {
	read  func(object.Object) string
	value string
	equal bool
}

// ParseFieldSelector parses a list of terms "field=value", "field==value" and "field!=value",
// separated by commas. An object must satisfy all terms. In a value a backslash escapes ',', '='
// and itself. The available fields depend on the kind.
func ParseFieldSelector(kind, text string) (FieldSelector, error) {
	var selector FieldSelector
	fields := selectableFields(kind)
	for _, term := range splitEscaped(text) {
		if strings.TrimSpace(term) == "" {
			continue
		}
		name, value, equal, ok := cutFieldTerm(term)
		if !ok {
			return FieldSelector{}, fmt.Errorf("field selector %q: term %q has none of =, ==, !=", clip(text), clip(term))
		}
		read, ok := fields[name]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			return FieldSelector{}, fmt.Errorf("field selector %q: objects of kind %s cannot be selected by %q, but by %s", clip(text), kind, clip(name), known)
		}
		selector.terms = append(selector.terms, fieldTerm{read, value, equal})
	}
	return selector, nil
}

// Empty reports whether the selector selects all objects.
func (s FieldSelector) Empty() bool { return len(s.terms) == 0 }

// Matches reports whether the selector selects the object, which must be of the selector's kind.
func (s FieldSelector) Matches(o object.Object) bool {
	for _, term := range s.terms {
		if (term.read(o) == term.value) != term.equal {
			return false
		}
	}
	return true
}

// splitEscaped splits a text at the commas that are not escaped. It keeps the backslashes.
func splitEscaped(text string) []string {
	var terms []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			terms = append(terms, text[start:i])
			start = i + 1
		}
	}
	return append(terms, text[start:])
}

func cutFieldTerm(term string) (name, value string, equal, ok bool) {
	name, value, ok = strings.Cut(term, "=")
	if !ok {
		return "", "", false, false
	}
	equal = true
	if strings.HasSuffix(name, "!") {
		name, equal = strings.TrimSuffix(name, "!"), false
	} else {
		value = strings.TrimPrefix(value, "=")
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\,`, `,`, `\=`, `=`)
	return strings.TrimSpace(name), unescape.Replace(strings.TrimSpace(value)), equal, true
}

func field[T object.Object](read func(T) string) func(object.Object) string {
	return func(o object.Object) string {
		typed, _ := o.(T)
		return read(typed)
	}
}

func selectableFields(kind string) map[string]func(object.Object) string {
	fields := map[string]func(object.Object) string{
		"metadata.name": func(o object.Object) string { return o.GetMetadata().GetName() },
	}
	if known, _ := object.KindNamed(kind); known.Namespaced {
		fields["metadata.namespace"] = func(o object.Object) string { return o.GetMetadata().GetNamespace() }
	}
	switch kind {
	case "Service":
		fields["spec.type"] = field(func(s *corev1.Service) string { return EnumName(s.GetSpec().GetType()) })
		fields["spec.clusterIP"] = field(func(s *corev1.Service) string { return s.GetSpec().GetClusterIp() })
	case "Pod":
		fields["spec.nodeName"] = field(func(p *corev1.Pod) string { return p.GetSpec().GetNodeName() })
		fields["status.phase"] = field(func(p *corev1.Pod) string { return EnumName(p.GetStatus().GetPhase()) })
		fields["status.podIP"] = field(func(p *corev1.Pod) string { return p.GetStatus().GetPodIp() })
	case "Node":
		fields["spec.unschedulable"] = field(func(n *corev1.Node) string { return strconv.FormatBool(n.GetSpec().GetUnschedulable()) })
	case "Namespace":
		fields["status.phase"] = field(func(n *corev1.Namespace) string { return EnumName(n.GetStatus().GetPhase()) })
	case "Lease":
		fields["spec.holderIdentity"] = field(func(l *corev1.Lease) string { return l.GetSpec().GetHolderIdentity() })
	case "Event":
		addEventFields(fields)
	}
	return fields
}

// addEventFields adds the fields of an event's object under their current and their older name.
func addEventFields(fields map[string]func(object.Object) string) {
	for _, prefix := range []string{"regarding", "involvedObject"} {
		fields[prefix+".kind"] = field(func(e *corev1.Event) string { return e.GetRegarding().GetKind() })
		fields[prefix+".namespace"] = field(func(e *corev1.Event) string { return e.GetRegarding().GetNamespace() })
		fields[prefix+".name"] = field(func(e *corev1.Event) string { return e.GetRegarding().GetName() })
		fields[prefix+".uid"] = field(func(e *corev1.Event) string { return e.GetRegarding().GetUid() })
	}
	fields["reason"] = field(func(e *corev1.Event) string { return e.GetReason() })
	fields["type"] = field(func(e *corev1.Event) string { return EnumName(e.GetType()) })
	fields["reportingComponent"] = field(func(e *corev1.Event) string { return e.GetReportingComponent() })
}
