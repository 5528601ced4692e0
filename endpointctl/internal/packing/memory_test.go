package packing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
)

// installation is a service with pods and nodes that change at random. As in the index, a changed
// object is another one.
type installation struct {
	svc     *corev1.Service
	pods    map[string]*corev1.Pod
	nodes   map[string]Node
	refused Refused
}

func (i *installation) ordered() []*corev1.Pod {
	var all []*corev1.Pod
	for _, name := range sortedKeys(i.pods) {
		all = append(all, i.pods[name])
	}
	return all
}

func (i *installation) find(name string) (Node, bool) {
	n, ok := i.nodes[name]
	return n, ok
}

// TestAMemoryChangesNoResult changes a service, its pods, their nodes, the refused endpoints and the
// slices at random. The verdicts of a memory equal the verdicts of a fresh evaluation, and the plans of
// a memory lead to the wanted slices.
func TestAMemoryChangesNoResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := &installation{svc: webService(), pods: map[string]*corev1.Pod{}, nodes: map[string]Node{"n1": {Ready: true}, "n2": {Ready: true}}}
		for n := range RememberedPods + 3 {
			i.put(fmt.Sprintf("p-%03d", n), n, fmt.Sprint("n", 1+n%2), true)
		}
		var m Memory
		var c cluster
		names := rapid.IntRange(0, RememberedPods+5)
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				n := names.Draw(t, "pod")
				node := rapid.SampledFrom([]string{"", "n1", "n2", "unknown"}).Draw(t, "node")
				i.put(fmt.Sprintf("p-%03d", n), n, node, rapid.Bool().Draw(t, "ready"))
			},
			"delete": func(t *rapid.T) { delete(i.pods, fmt.Sprintf("p-%03d", names.Draw(t, "pod"))) },
			"node": func(t *rapid.T) {
				i.nodes["n2"] = Node{Zone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), Ready: rapid.Bool().Draw(t, "ready")}
			},
			"node gone": func(*rapid.T) { delete(i.nodes, "n2") },
			"service": func(t *rapid.T) {
				i.svc = webService()
				i.svc.Spec.PublishNotReadyAddresses = rapid.Bool().Draw(t, "publish")
			},
			"refusal": func(*rapid.T) {
				i.refused = Refused{}
				i.refused.Add("10.0.0.7", podRef(webPod("p-007", "10.0.0.7")), "no reason")
			},
			"no refusal": func(*rapid.T) { i.refused = nil },
			"somebody changes a slice": func(t *rapid.T) {
				n := c.draw(t)
				s := c.slices[n].CloneVT()
				s.Endpoints = append(s.Endpoints[:len(s.Endpoints)/2], c.slices[0].GetEndpoints()...)
				c.slices[n] = s
			},
			"somebody deletes a slice": func(t *rapid.T) {
				n := c.draw(t)
				c.slices = slices.Delete(c.slices, n, n+1)
			},
			"the stream delivers a slice": func(t *rapid.T) {
				n := c.draw(t)
				c.slices[n] = c.slices[n].CloneVT()
			},
			"sync": func(t *rapid.T) {
				verdicts := m.EvaluatePods(i.svc, i.ordered(), i.find, i.refused)
				compareVerdicts(t, i.svc, verdicts, EvaluatePods(i.svc, i.ordered(), i.find, i.refused))
				w := SlicesFromPods(i.svc, verdicts, 40)
				c.apply(t, m.Pack(w, c.slices))
				c.check(t, w)
				if again := m.Pack(w, c.slices); !again.Empty() {
					t.Fatalf("a second time: %v", again)
				}
			},
		})
	})
}

// TestOneChangedPodIsOneNewVerdict checks that a change computes no verdicts on other pods.
func TestOneChangedPodIsOneNewVerdict(t *testing.T) {
	i := &installation{svc: webService(), pods: map[string]*corev1.Pod{}, nodes: map[string]Node{"n1": {Ready: true}}}
	for n := range RememberedPods {
		i.put(fmt.Sprintf("p-%03d", n), n, "n1", true)
	}
	var m Memory
	before := m.EvaluatePods(i.svc, i.ordered(), i.find, nil)
	i.put("p-007", 7, "n1", false)
	for k, v := range m.EvaluatePods(i.svc, i.ordered(), i.find, nil) {
		if (v == before[k]) != (k != 7) {
			t.Errorf("verdict %d is the same one: %v", k, v == before[k])
		}
	}
}

// draw returns the place of a slice, if there is one.
func (c *cluster) draw(t *rapid.T) int {
	if len(c.slices) == 0 {
		t.Skip("allowed: no slice is written yet")
	}
	return rapid.IntRange(0, len(c.slices)-1).Draw(t, "slice")
}

func (i *installation) put(name string, n int, node string, ready bool) {
	pod := webPod(name, fmt.Sprintf("10.0.0.%d", n), onNode(node))
	if !ready {
		notReady(pod)
	}
	i.pods[name] = pod
}

func compareVerdicts(t *rapid.T, svc *corev1.Service, got, want []*PodVerdict) {
	if len(got) != len(want) {
		t.Fatalf("%d verdicts, want %d", len(got), len(want))
	}
	for k := range got {
		if got[k].Pod != want[k].Pod || got[k].Selected != want[k].Selected || got[k].Ready != want[k].Ready || got[k].Reason != want[k].Reason {
			t.Fatalf("verdict %+v, want %+v", got[k], want[k])
		}
	}
	a, b := SlicesFromPods(svc, got, 100), SlicesFromPods(svc, want, 100)
	same := func(x, y Group) bool {
		return x.key() == y.key() && slices.EqualFunc(x.Endpoints, y.Endpoints, (*corev1.Endpoint).EqualVT)
	}
	if !slices.EqualFunc(a.Groups, b.Groups, same) {
		t.Fatalf("the endpoints are %v, want %v", a.Groups, b.Groups)
	}
}

// BenchmarkFlip measures the plan for one changed pod of a service of some size.
func BenchmarkFlip(b *testing.B) {
	for _, pods := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			svc := webService()
			var all []*corev1.Pod
			for i := range pods {
				all = append(all, webPod(fmt.Sprintf("p-%04d", i), fmt.Sprintf("10.0.%d.%d", i*7%pods>>8, i*7%pods&255)))
			}
			nodes := func(string) (Node, bool) { return Node{Zone: "a", Ready: true}, true }
			var m Memory
			plan := Pack(SlicesFromPods(svc, m.EvaluatePods(svc, all, nodes, nil), 100), nil)
			var existing []*corev1.EndpointSlice
			for i, s := range plan.Create {
				s = s.CloneVT()
				s.Metadata.Name = fmt.Sprint("s-", i)
				existing = append(existing, s)
			}
			legacy := EndpointsFromPods(svc, m.EvaluatePods(svc, all, nodes, nil), "", nil).CloneVT()
			flipped := webPod(all[pods/2].GetMetadata().GetName(), all[pods/2].GetStatus().GetPodIp(), notReady)
			var changed, written int
			measure := func(b *testing.B, endpoints bool) {
				b.ReportAllocs()
				for b.Loop() {
					now := slices.Clone(all)
					if changed++; changed%2 == 0 {
						now[pods/2] = flipped
					}
					verdicts := m.EvaluatePods(svc, now, nodes, nil)
					plan := m.Pack(SlicesFromPods(svc, verdicts, 100), existing)
					written += len(plan.Update)
					if endpoints {
						EndpointsFromPods(svc, verdicts, "", legacy)
					}
				}
			}
			b.Run("slices", func(b *testing.B) { measure(b, false) })
			b.Run("and Endpoints", func(b *testing.B) { measure(b, true) })
			if written == 0 {
				b.Error("no slice changes")
			}
		})
	}
}
