package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/endpointctl/internal/registrytest"
)

// TestWhateverHappensTheSlicesAreRightInTheEnd changes services and pods at random while a controller
// with many workers writes in batches, of which some writes fail or meet a change by others. Once
// changes and failures end, slices and Endpoints are those that one evaluation of all objects gives.
func TestWhateverHappensTheSlicesAreRightInTheEnd(t *testing.T) {
	r := registrytest.New(t)
	run(t, r, func(cfg *Config) {
		cfg.Workers, cfg.MaxPerSlice, cfg.LegacyInterval = 16, 3, 5*time.Millisecond
	})
	rapid.Check(t, func(rt *rapid.T) {
		failures := rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "", "unavailable", "conflict"}), 1, 20).Draw(rt, "failures")
		attempt := 0
		r.Fail(func(_ string, o object.Object) error {
			if object.KindOf(o) == "Event" {
				return nil
			}
			attempt++
			switch failures[attempt%len(failures)] {
			case "unavailable":
				return registrytest.Unavailable
			case "conflict":
				return apierr.Conflict(object.KindOf(o), o.GetMetadata().GetName(), 2, 1)
			}
			return nil
		})
		for range rapid.IntRange(1, 40).Draw(rt, "changes") {
			randomChange(rt, r)
		}
		r.Fail(nil)
		kittest.Eventually(t, "the slices and Endpoints of all objects", func() error { return compareWithEvaluation(r) })
	})
}

// randomChange changes one object as another client.
func randomChange(t *rapid.T, r *registrytest.Registry) {
	n := rapid.IntRange(0, 7).Draw(t, "object")
	svc, p := service(), pod(fmt.Sprintf("p%d", n), fmt.Sprintf("10.0.0.%d", n+1))
	svc.Metadata.Name = fmt.Sprintf("s%d", n%3)
	svc.Spec.Selector = map[string]string{"app": fmt.Sprint("a", n%3)}
	p.Metadata.Labels = map[string]string{"app": fmt.Sprint("a", rapid.IntRange(0, 2).Draw(t, "app"))}
	if rapid.Bool().Draw(t, "not ready") {
		p.Status.Conditions[0].Status = corev1.ConditionStatus_CONDITION_STATUS_FALSE
	}
	switch rapid.SampledFrom([]string{"pod", "pod", "pod", "no pod", "service", "no service", "no slice"}).Draw(t, "change") {
	case "pod":
		r.Put(p)
	case "no pod":
		deleteKnown(r, p)
	case "service":
		r.Put(svc)
	case "no service":
		deleteKnown(r, svc)
	case "no slice":
		if all := registrytest.All[*corev1.EndpointSlice](r); len(all) > 0 {
			deleteKnown(r, all[n%len(all)])
		}
	}
}

// deleteKnown deletes an object if it exists.
func deleteKnown(r *registrytest.Registry, o object.Object) {
	if r.Log.Get(object.KeyOf(o)) != nil {
		r.Delete(o)
	}
}

// compareWithEvaluation compares the endpoints in slices and Endpoints with those that follow from
// the services and pods in the registry.
func compareWithEvaluation(r *registrytest.Registry) error {
	want, wantLegacy := map[string]string{}, map[string]string{}
	pods := registrytest.All[*corev1.Pod](r)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
	})
	for _, svc := range registrytest.All[*corev1.Service](r) {
		name := svc.GetMetadata().GetName()
		verdicts := packing.EvaluatePods(svc, pods, func(string) (packing.Node, bool) { return packing.Node{}, false }, nil)
		wantLegacy[name] = legacyText(packing.EndpointsFromPods(svc, verdicts, "", nil))
		var endpoints []*corev1.Endpoint
		for _, group := range packing.SlicesFromPods(svc, verdicts, 3).Groups {
			endpoints = append(endpoints, group.Endpoints...)
		}
		want[name] = endpointsText(endpoints)
	}
	got, gotLegacy := map[string]string{}, map[string]string{}
	endpoints := map[string][]*corev1.Endpoint{}
	for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
		name := s.GetMetadata().GetLabels()[object.LabelServiceName]
		endpoints[name] = append(endpoints[name], s.GetEndpoints()...)
	}
	for name, all := range endpoints {
		got[name] = endpointsText(all)
	}
	for _, e := range registrytest.All[*corev1.Endpoints](r) {
		gotLegacy[e.GetMetadata().GetName()] = legacyText(e)
	}
	if !maps.Equal(got, want) || !maps.Equal(gotLegacy, wantLegacy) {
		return fmt.Errorf("slices have %v and Endpoints %v, want %v and %v", got, gotLegacy, want, wantLegacy)
	}
	return nil
}

// endpointsText describes endpoints in the order of their addresses. An endpoint that is in two
// slices is in the text twice.
func endpointsText(endpoints []*corev1.Endpoint) string {
	var all []string
	for _, ep := range endpoints {
		all = append(all, fmt.Sprintf("%s %v;", ep.GetAddresses()[0], ep.GetConditions().GetReady()))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func legacyText(e *corev1.Endpoints) string {
	text := ""
	for _, s := range e.GetSubsets() {
		for _, a := range s.GetAddresses() {
			text += a.GetIp() + " "
		}
		for _, a := range s.GetNotReadyAddresses() {
			text += "!" + a.GetIp() + " "
		}
	}
	return text
}
