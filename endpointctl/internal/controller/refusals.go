package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
)

// endpointsLeftOutReason is the reason of the event for a service with endpoints that the registry
// refuses.
const endpointsLeftOutReason = "EndpointsLeftOut"

// refusal is the error of a write that the registry refused because of single endpoints.
type refusal struct {
	error

	endpoints []refusedEndpoint
}

type refusedEndpoint struct {
	address string
	pod     *corev1.ObjectReference // nil if there is none
	reason  string
}

// Unwrap returns the registry's error.
func (r *refusal) Unwrap() error { return r.error }

// asRefusal returns the error of a write as a refusal if it concerns single endpoints. Other faults
// of the object are found when it is written without these endpoints.
func asRefusal(o object.Object, err error) error {
	r := &refusal{error: err}
	for _, v := range apierr.ViolationsOf(err) {
		if address, ref, ok := endpointAt(o, v.Field); ok {
			r.endpoints = append(r.endpoints, refusedEndpoint{address, ref, v.Message})
		}
	}
	if len(r.endpoints) == 0 {
		return err
	}
	return r
}

// endpointAt returns the address and pod of the endpoint to which a field belongs.
func endpointAt(o object.Object, field string) (address string, pod *corev1.ObjectReference, ok bool) {
	var i, j int
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		if n, _ := fmt.Sscanf(field, "endpoints[%d]", &i); n == 1 && i < len(o.GetEndpoints()) {
			ep := o.GetEndpoints()[i]
			return ep.GetAddresses()[0], ep.GetTargetRef(), true
		}
	case *corev1.Endpoints:
		for format, list := range map[string]func(*corev1.EndpointSubset) []*corev1.EndpointAddress{
			"subsets[%d].addresses[%d]":         (*corev1.EndpointSubset).GetAddresses,
			"subsets[%d].notReadyAddresses[%d]": (*corev1.EndpointSubset).GetNotReadyAddresses,
		} {
			n, _ := fmt.Sscanf(field, format, &i, &j)
			if n == 2 && i < len(o.GetSubsets()) && j < len(list(o.GetSubsets()[i])) {
				a := list(o.GetSubsets()[i])[j]
				return a.GetIp(), a.GetTargetRef(), true
			}
		}
	}
	return "", nil, false
}

// refusals holds the endpoints that the registry refused, so that they are left out until they are
// tried again. It is safe for concurrent use.
type refusals struct {
	mu  sync.Mutex
	all map[object.Name]packing.Refused // guarded by mu; the values are never changed
}

// add records a refusal. It returns false if all its endpoints were recorded before.
func (r *refusals) add(key object.Name, refused *refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, grown := maps.Clone(r.all[key]), false
	if all == nil {
		all = packing.Refused{}
	}
	for _, ep := range refused.endpoints {
		grown = all.Add(ep.address, ep.pod, ep.reason) || grown
	}
	r.all[key] = all
	return grown
}

func (r *refusals) get(key object.Name) packing.Refused {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[key]
}

func (r *refusals) forget(key object.Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}

// clear removes all refusals, and returns the services that had any.
func (r *refusals) clear() []object.Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.Collect(maps.Keys(r.all))
	clear(r.all)
	return keys
}

// recheckRefused tries refused endpoints again once per Recheck interval.
func (c *shard) recheckRefused(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.retryRefused()
		}
	}
}

// retryRefused makes the services with refused endpoints due. Endpoints that are refused again are
// reported again, and the registry counts the repeated event.
func (c *shard) retryRefused() {
	for _, key := range c.refusals.clear() {
		c.events.Forget(eventKey{key, endpointsLeftOutReason})
		c.queue.Add(key, 1)
	}
}

// reportLeftOut reports to the owner of a service, after a sync, the endpoints that are left out.
func (t *task) reportLeftOut(ctx context.Context, err error) {
	refused := t.c.refusals.get(t.key)
	if err != nil || t.objects.Service == nil || len(refused) == 0 {
		return
	}
	t.c.report(ctx, t.objects.Service, endpointsLeftOutReason, "left out because the registry refuses them: "+strings.Join(refused.Texts(), "; "))
}

// reportProblems records the problems of an Endpoints as Events on it, one for each reason.
func (t *task) reportProblems(ctx context.Context, problems []packing.Problem) {
	texts := map[string][]string{}
	for _, p := range problems {
		texts[p.Reason] = append(texts[p.Reason], p.Message)
	}
	for reason, messages := range texts {
		t.c.report(ctx, t.objects.Endpoints, reason, strings.Join(messages, "; "))
	}
}
