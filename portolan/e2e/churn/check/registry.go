package check

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// Labels that name the maker of an object.
const (
	endpointsMadeBy = "endpoints.kubernetes.io/managed-by"
)

// list returns all objects of a kind.
func list[T object.Object](ctx context.Context, registry grpc.ClientConnInterface, kind string) ([]T, error) {
	k, ok := kinds.Named(kind)
	if !ok {
		return nil, fmt.Errorf("no kind %q", kind)
	}
	found, _, err := client.New(registry).List(ctx, k, client.Query{})
	var all []T
	for _, o := range found {
		if o, ok := o.(T); ok {
			all = append(all, o)
		}
	}
	return all, err
}

// Objects checks that the registry has exactly the objects that it has acknowledged.
type Objects struct{ Registry grpc.ClientConnInterface }

// Name implements Checker.
func (Objects) Name() string { return "objects" }

// Check implements Checker.
func (c Objects) Check(ctx context.Context, want *model.World) ([]Finding, error) {
	got := model.Lines{}
	note := func(o object.Object) { got[object.KeyOf(o)] = []string{model.Version(o)} }
	services, err := list[*corev1.Service](ctx, c.Registry, "Service")
	if err != nil {
		return nil, err
	}
	for _, o := range services {
		note(o)
	}
	pods, err := list[*corev1.Pod](ctx, c.Registry, "Pod")
	if err != nil {
		return nil, err
	}
	for _, o := range pods {
		note(o)
	}
	slices, err := list[*corev1.EndpointSlice](ctx, c.Registry, "EndpointSlice")
	for _, o := range slices {
		if o.GetMetadata().GetLabels()[object.LabelManagedBy] == "" {
			note(o)
		}
	}
	return compare(c.Name(), want.Objects(), got, true), err
}

// Slices checks that the slices of services with selectors follow the rules.
type Slices struct{ Registry grpc.ClientConnInterface }

// Name implements Checker.
func (Slices) Name() string { return "slices" }

// Check implements Checker.
func (c Slices) Check(ctx context.Context, want *model.World) ([]Finding, error) {
	slices, err := list[*corev1.EndpointSlice](ctx, c.Registry, "EndpointSlice")
	if err != nil {
		return nil, err
	}
	got := model.Lines{}
	for _, s := range slices {
		if s.GetMetadata().GetLabels()[object.LabelManagedBy] == "" {
			continue
		}
		var ports []string
		for _, p := range s.GetPorts() {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", p.GetName(), p.GetPort(), model.Protocol(p.GetProtocol())))
		}
		key := object.ServiceKey(s)
		for _, ep := range s.GetEndpoints() {
			got[key] = append(got[key], model.Published(
				ep.GetAddresses()[0], ep.GetConditions().GetReady(), ep.GetTargetRef().GetUid(), ep.GetNodeName(), ports,
			))
		}
	}
	return compare(c.Name(), want.Slices(), got, false), nil
}

// Legacy checks that the Endpoints of services with selectors follow the rules.
type Legacy struct{ Registry grpc.ClientConnInterface }

// Name implements Checker.
func (Legacy) Name() string { return "endpoints" }

// Check implements Checker.
func (c Legacy) Check(ctx context.Context, want *model.World) ([]Finding, error) {
	all, err := list[*corev1.Endpoints](ctx, c.Registry, "Endpoints")
	if err != nil {
		return nil, err
	}
	got := model.Lines{}
	for _, e := range all {
		if e.GetMetadata().GetLabels()[endpointsMadeBy] == "" {
			continue
		}
		key := object.Key{Kind: "Service", Namespace: e.GetMetadata().GetNamespace(), Name: e.GetMetadata().GetName()}
		for _, subset := range e.GetSubsets() {
			for _, a := range subset.GetAddresses() {
				got[key] = append(got[key], model.InEndpoints(a.GetIp(), true, a.GetTargetRef().GetUid()))
			}
			for _, a := range subset.GetNotReadyAddresses() {
				got[key] = append(got[key], model.InEndpoints(a.GetIp(), false, a.GetTargetRef().GetUid()))
			}
		}
	}
	return compare(c.Name(), want.Legacy(), got, false), nil
}

// Events checks that no daemon has reported events without a cause.
type Events struct {
	Registry grpc.ClientConnInterface
	// False are the reasons of events that have no cause in this run.
	False map[string]bool
}

// Name implements Checker.
func (Events) Name() string { return "events" }

// Check implements Checker.
func (c Events) Check(ctx context.Context, _ *model.World) ([]Finding, error) {
	events, err := list[*corev1.Event](ctx, c.Registry, "Event")
	var findings []Finding
	for _, e := range events {
		if !c.False[e.GetReason()] {
			continue
		}
		regarding := e.GetRegarding()
		findings = append(findings, Finding{
			Check: c.Name(), Object: object.Key{Kind: regarding.GetKind(), Namespace: regarding.GetNamespace(), Name: regarding.GetName()},
			Problem: fmt.Sprintf("%s said %s: %s", e.GetReportingInstance(), e.GetReason(), e.GetMessage()), Final: true,
		})
	}
	return findings, err
}
