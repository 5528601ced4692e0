package objects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Service returns the service to create for a workload. If several ports have the same number and protocol, it
// has the first, because a workload may give one port two names.
func (b *Builder) Service(w *source.Workload) *corev1.Service {
	name := b.ServiceName(w)
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Annotations: map[string]string{object.AnnotationWorkload: b.Owner}},
		Spec:     &corev1.ServiceSpec{Selector: map[string]string{object.LabelService: name.Name}},
	}
	type number struct {
		port     uint16
		protocol corev1.Protocol
	}
	taken := map[number]bool{}
	for _, p := range w.Ports {
		port := cmp.Or(p.ServicePort, p.Number)
		if taken[number{port, p.Protocol}] {
			continue
		}
		taken[number{port, p.Protocol}] = true
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, Port: int32(port),
			TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: p.Name}},
		})
	}
	return svc
}

// NewNamespace returns a namespace to create.
func (b *Builder) NewNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name, Annotations: map[string]string{object.AnnotationWorkload: b.Owner}}}
}

// The reasons of problems between a workload and its service.
const (
	ReasonNoService      = "NoService"
	ReasonNoSelector     = "ServiceWithoutSelector"
	ReasonPortMissing    = "PortMissing"
	ReasonLabelConflict  = "LabelConflict"
	ReasonServiceShared  = "ServiceShared"
	ReasonOtherNamespace = "OtherNamespace"
)

// Check returns the reasons why a workload is not a backend of its service, or not of all ports of the
// service. service is nil if it does not exist and the registrar does not create it.
func (b *Builder) Check(w *source.Workload, service *corev1.Service) []source.Problem {
	name := b.ServiceName(w)
	problem := func(reason, format string, args ...any) source.Problem {
		return source.Problem{Object: w.Name, Reason: reason, Message: fmt.Sprintf("service %s: ", name) + fmt.Sprintf(format, args...)}
	}
	if service == nil {
		return []source.Problem{problem(ReasonNoService, "does not exist: create it, or let the registrar do it (-create-services)")}
	}
	selector := service.GetSpec().GetSelector()
	if len(selector) == 0 {
		return []source.Problem{problem(ReasonNoSelector, "has no selector, so its endpoints are written by hand: give it the selector %s: %s", object.LabelService, name.Name)}
	}
	var problems []source.Problem
	for key, value := range w.Labels {
		if wanted, selected := selector[key]; selected && wanted != value {
			problems = append(problems, problem(ReasonLabelConflict, "selects %s=%s, which overrides the label %s=%s", key, wanted, key, value))
		}
	}
	if reserved := selector[object.LabelService]; reserved != "" && reserved != w.Service {
		problems = append(problems, problem(ReasonLabelConflict, "selects %s=%s, which is the label of the service %[3]s's backends: change the selector, or name the service %[3]s",
			object.LabelService, reserved, reserved))
	}
	for _, p := range service.GetSpec().GetPorts() {
		if missing := p.GetTargetPort().GetName(); missing != "" && !hasPort(w, missing, p.GetProtocol()) {
			problems = append(problems, problem(ReasonPortMissing, "port %d leads to a port of the name %q and protocol %s, and there is none: there are %s",
				p.GetPort(), missing, spec.EnumName(p.GetProtocol()), names(w.Ports)))
		}
	}
	slices.SortFunc(problems, func(a, b source.Problem) int { return strings.Compare(a.Message, b.Message) })
	return problems
}

func hasPort(w *source.Workload, name string, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(w.Ports, func(p source.Port) bool {
		return p.Name == name && p.Protocol == cmp.Or(protocol, corev1.Protocol_PROTOCOL_TCP)
	})
}

// names returns a list of ports for a message.
func names(ports []source.Port) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, PortText(p))
	}
	return strings.Join(texts, ", ")
}

// PortText returns a port as a text such as http=8000/TCP.
func PortText(p source.Port) string {
	return fmt.Sprintf("%s=%d/%s", p.Name, p.Number, spec.EnumName(p.Protocol))
}
