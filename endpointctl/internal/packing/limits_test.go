package packing

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// field is a field of a kind with a limit: a number of entries, of bytes, or a value.
type field struct {
	title string
	with  func(n int) object.Object // a valid object, except that the field has n; nil: there is no limit
	limit int                       // known already, such as of a size
}

// limitRow is a row of the table of limits in the README of endpointctl. The controller fills the field into from the field
// from.
type limitRow struct {
	from, into field
	added      int    // entries that the controller adds
	more       string // what the controller does with more than fits; empty: no more can be admitted
}

// largest returns the largest number with which a field is valid.
func (f field) largest() int {
	if f.with == nil {
		return f.limit
	}
	valid := func(n int) bool { return len(violations(f.with(n))) == 0 }
	most := 1
	for valid(2 * most) {
		most *= 2
	}
	return most + sort.Search(most, func(i int) bool { return !valid(most + i + 1) })
}

// violations validates an object as the registry does, with its size.
func violations(o object.Object) apierr.Violations {
	kind := kinds.Of(o)
	kind.Default(o)
	found := kind.Validate(o, spec.Rules{})
	if size := sizeOf(o); size > kind.MaxBytes {
		found.Add("metadata", apierr.ReasonTooLong, "%d bytes, at most %d", size, kind.MaxBytes)
	}
	return found
}

func sizeOf(o object.Object) int {
	sized, _ := o.(interface{ SizeVT() int })
	return sized.SizeVT()
}

func letters(n int) string { return strings.Repeat("a", n) }

func labelsOf(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprint("l", i)] = ""
	}
	return labels
}

func repeat[T any](n int, entry func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = entry(i)
	}
	return all
}

func serviceField(title string, change func(n int, s *corev1.Service)) field {
	return field{title: "Service " + title, with: func(n int) object.Object {
		svc := webService(func(s *corev1.Service) { s.Spec.ClusterIp, s.Spec.IpFamilies = "", nil })
		change(n, svc)
		return svc
	}}
}

func podField(title string, change func(n int, p *corev1.Pod)) field {
	return field{title: "Pod " + title, with: func(n int) object.Object {
		pod := webPod("p", "10.0.0.1")
		change(n, pod)
		return pod
	}}
}

func sliceField(title string, change func(n int, s *corev1.EndpointSlice)) field {
	return field{title: "EndpointSlice " + title, with: func(n int) object.Object {
		s := &corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
		change(n, s)
		return s
	}}
}

func endpointsField(title string, change func(n int, e *corev1.Endpoints)) field {
	return field{title: "Endpoints " + title, with: func(n int) object.Object {
		e := &corev1.Endpoints{
			Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
			Subsets:  []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.1"}}}},
		}
		change(n, e)
		return e
	}}
}

func sizeField(o object.Object) field {
	return field{title: object.KindOf(o) + " size in bytes", limit: kinds.Of(o).MaxBytes}
}

// annotationBytes returns annotations of n bytes.
func annotationBytes(n int) map[string]string { return map[string]string{"a": letters(n - 1)} }

// limitRows returns the rows of the table of limits.
func limitRows() []limitRow {
	var (
		pods          = field{title: "pods of a Service"}
		servicePorts  = serviceField("spec.ports", func(n int, s *corev1.Service) { s.Spec.Ports = servicePorts(n) })
		serviceLabels = serviceField("metadata.labels", func(n int, s *corev1.Service) { s.Metadata.Labels = labelsOf(n) })
		serviceName   = serviceField("metadata.name, bytes", func(n int, s *corev1.Service) { s.Metadata.Name = letters(n) })
		portName      = serviceField("spec.ports[].name, bytes", func(n int, s *corev1.Service) { s.Spec.Ports[0].Name = letters(n) })
		podHostname   = podField("spec.hostname, bytes", func(n int, p *corev1.Pod) { p.Spec.Hostname = letters(n) })
		podNode       = podField("spec.nodeName, bytes", func(n int, p *corev1.Pod) { p.Spec.NodeName = letters(n) })
		podWeight     = podField("spec.weight", func(n int, p *corev1.Pod) { p.Spec.Weight = new(uint32(n)) })
		nodeZone      = field{title: "Node label " + object.LabelZone + ", bytes", with: func(n int) object.Object {
			return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Labels: map[string]string{object.LabelZone: letters(n)}}}
		}}

		slicePorts   = sliceField("ports", func(n int, s *corev1.EndpointSlice) { s.Ports = endpointPorts(n) })
		sliceLabels  = sliceField("metadata.labels", func(n int, s *corev1.EndpointSlice) { s.Metadata.Labels = labelsOf(n) })
		sliceName    = sliceField("metadata.name, bytes", func(n int, s *corev1.EndpointSlice) { s.Metadata.Name = letters(n) })
		sliceService = sliceField("label "+object.LabelServiceName+", bytes", func(n int, s *corev1.EndpointSlice) {
			s.Metadata.Labels = map[string]string{object.LabelServiceName: letters(n)}
		})
		sliceAnnotations = sliceField("metadata.annotations, bytes", func(n int, s *corev1.EndpointSlice) { s.Metadata.Annotations = annotationBytes(n) })
		slicePortName    = sliceField("ports[].name, bytes", func(n int, s *corev1.EndpointSlice) { s.Ports = []*corev1.EndpointPort{{Name: new(letters(n))}} })
		sliceHostname    = sliceField("endpoints[].hostname, bytes", func(n int, s *corev1.EndpointSlice) { s.Endpoints[0].Hostname = new(letters(n)) })
		sliceNode        = sliceField("endpoints[].nodeName, bytes", func(n int, s *corev1.EndpointSlice) { s.Endpoints[0].NodeName = new(letters(n)) })
		sliceWeight      = sliceField("endpoints[].weight", func(n int, s *corev1.EndpointSlice) { s.Endpoints[0].Weight = new(uint32(n)) })
		hintNode         = sliceField("endpoints[].hints.forNodes[].name, bytes", func(n int, s *corev1.EndpointSlice) {
			s.Endpoints[0].Hints = &corev1.EndpointHints{ForNodes: []*corev1.ForNode{{Name: letters(n)}}}
		})
		hintZone = sliceField("endpoints[].hints.forZones[].name, bytes", func(n int, s *corev1.EndpointSlice) {
			s.Endpoints[0].Hints = &corev1.EndpointHints{ForZones: []*corev1.ForZone{{Name: letters(n)}}}
		})
		sliceEndpoints = sliceField("endpoints", func(n int, s *corev1.EndpointSlice) {
			s.Endpoints = repeat(n, func(int) *corev1.Endpoint { return &corev1.Endpoint{Addresses: []string{"10.0.0.1"}} })
		})

		subsetPorts          = endpointsField("subsets[].ports", func(n int, e *corev1.Endpoints) { e.Subsets[0].Ports = endpointsPorts(endpointPorts(n)) })
		endpointsLabels      = endpointsField("metadata.labels", func(n int, e *corev1.Endpoints) { e.Metadata.Labels = labelsOf(n) })
		endpointsAnnotations = endpointsField("metadata.annotations, bytes", func(n int, e *corev1.Endpoints) { e.Metadata.Annotations = annotationBytes(n) })
		subsetPortName       = endpointsField("subsets[].ports[].name, bytes", func(n int, e *corev1.Endpoints) {
			e.Subsets[0].Ports = []*corev1.EndpointSubsetPort{{Name: letters(n), Port: 80}}
		})
		addressHostname = endpointsField("subsets[].addresses[].hostname, bytes", func(n int, e *corev1.Endpoints) { e.Subsets[0].Addresses[0].Hostname = letters(n) })
		addressNode     = endpointsField("subsets[].addresses[].nodeName, bytes", func(n int, e *corev1.Endpoints) { e.Subsets[0].Addresses[0].NodeName = new(letters(n)) })
		endpointsCount  = endpointsField("addresses of all subsets", func(n int, e *corev1.Endpoints) {
			e.Subsets[0].Addresses = repeat(n, func(int) *corev1.EndpointAddress { return &corev1.EndpointAddress{Ip: "10.0.0.1"} })
		})

		serviceSize, sliceSize, endpointsSize = sizeField(&corev1.Service{}), sizeField(&corev1.EndpointSlice{}), sizeField(&corev1.Endpoints{})
	)
	return []limitRow{
		{from: servicePorts, into: slicePorts},
		{from: servicePorts, into: subsetPorts},
		{from: portName, into: slicePortName},
		{from: portName, into: subsetPortName},
		{from: serviceLabels, into: sliceLabels, added: 3},
		{from: serviceLabels, into: endpointsLabels, added: 2},
		{from: serviceName, into: sliceName, added: 11},
		{from: serviceName, into: sliceService},
		{from: serviceSize, into: sliceSize, more: "fewer endpoints in each slice"},
		{from: serviceSize, into: endpointsSize, more: "addresses are left out, with the annotation `" + AnnotationOverCapacity + "`"},
		{from: pods, into: sliceEndpoints, more: "more slices"},
		{from: pods, into: endpointsCount, more: "addresses are left out, with the annotation `" + AnnotationOverCapacity + "`"},
		{from: podHostname, into: sliceHostname},
		{from: podHostname, into: addressHostname},
		{from: podNode, into: sliceNode},
		{from: podNode, into: hintNode},
		{from: podNode, into: addressNode},
		{from: podWeight, into: sliceWeight},
		{from: nodeZone, into: hintZone},
		{from: subsetPorts, into: slicePorts},
		{from: subsetPortName, into: slicePortName},
		{from: endpointsLabels, into: sliceLabels, added: 3},
		{from: endpointsAnnotations, into: sliceAnnotations},
		{from: endpointsCount, into: sliceEndpoints},
		{from: addressHostname, into: sliceHostname},
		{from: addressNode, into: sliceNode},
		{from: endpointsSize, into: sliceSize},
	}
}

// TestWhatIsAdmittedFitsIntoWhatIsMadeOfIt finds the limits by validating objects. The limit of a field is no smaller
// than the limit of the field that the controller fills it from, or the controller splits or shortens the list. The
// README has the same table.
func TestWhatIsAdmittedFitsIntoWhatIsMadeOfIt(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]int{}
	limitOf := func(f field) int {
		if _, found := known[f.title]; !found {
			known[f.title] = f.largest()
		}
		return known[f.title]
	}
	table := []string{"| made from | limit | into | limit | more than fits |", "|---|---|---|---|---|"}
	for _, row := range limitRows() {
		from, into := limitOf(row.from), limitOf(row.into)
		if row.more == "" && from+row.added > into {
			t.Errorf("%s may have %d and the controller adds %d, but %s may have only %d", row.from.title, from, row.added, row.into.title, into)
		}
		limit := fmt.Sprint(from)
		switch {
		case row.from.with == nil && row.from.limit == 0:
			limit = "none"
		case row.added > 0:
			limit += fmt.Sprint(" + ", row.added)
		}
		table = append(table, fmt.Sprintf("| %s | %s | %s | %d | %s |", row.from.title, limit, row.into.title, into, row.more))
	}
	if want := strings.Join(table, "\n") + "\n"; !strings.Contains(string(readme), want) {
		t.Errorf("the README has another table than:\n%s", want)
	}
}

func servicePorts(n int) []*corev1.ServicePort {
	return repeat(n, func(i int) *corev1.ServicePort {
		return &corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1), TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 80}}}
	})
}

func endpointPorts(n int) []*corev1.EndpointPort {
	return repeat(n, func(i int) *corev1.EndpointPort {
		return &corev1.EndpointPort{Name: new(fmt.Sprint("p", i)), Port: new(int32(80)), Protocol: corev1.Protocol_PROTOCOL_TCP}
	})
}

// The largest names, of which the numbers are different.
func longName(i int) string     { return fmt.Sprintf("%05d%s", i, letters(248)) }
func longLabel(i int) string    { return fmt.Sprintf("a%05d%s", i, letters(57)) }
func longLabelKey(i int) string { return letters(63) + "." + letters(63) + "/" + longLabel(i) }

// largePods returns pods with names, hostnames and nodes of the largest sizes.
func largePods(n int, change ...func(i int, p *corev1.Pod)) []*corev1.Pod {
	return repeat(n, func(i int) *corev1.Pod {
		pod := &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Name: longName(i), Namespace: letters(63), Uid: "00000000-0000-0000-0000-000000000000", Labels: map[string]string{"app": "web"}},
			Spec:     &corev1.PodSpec{NodeName: longName(0), Hostname: longLabel(i), Subdomain: longLabel(0), Weight: new(uint32(65535))},
			Status: &corev1.PodStatus{PodIps: []string{fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%04x", i+0x1000)}, Phase: corev1.PodPhase_POD_PHASE_RUNNING, Conditions: []*corev1.Condition{
				{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE},
			}},
		}
		for _, c := range change {
			c(i, pod)
		}
		return pod
	})
}

// largeService returns a headless service with a name and labels of the largest sizes.
func largeService(ports []*corev1.ServicePort) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: longLabel(0), Namespace: letters(63), Uid: "00000000-0000-0000-0000-000000000000", Labels: map[string]string{}},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIp: "None", ClusterIps: []string{"None"}, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV6}, Ports: ports,
			TrafficDistribution: corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE,
		},
	}
	for i := range 128 {
		svc.Metadata.Labels[longLabelKey(i)] = longLabel(i)
	}
	return svc
}

// largestPorts returns as many ports with names and protocols of the largest sizes as a service may have by its size.
func largestPorts() []*corev1.ServicePort {
	port := func(i int) *corev1.ServicePort {
		return &corev1.ServicePort{
			Name: longLabel(i), Port: int32(i + 1), Protocol: corev1.Protocol_PROTOCOL_SCTP, AppProtocol: new(longLabelKey(i)),
			TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 65535}},
		}
	}
	room := kinds.Of(&corev1.Service{}).MaxBytes - sizeOf(largeService(nil)) - 16
	return repeat(room/(sizeOf(largeService([]*corev1.ServicePort{port(20000)}))-sizeOf(largeService(nil))), port)
}

// checkAdmitted checks that the registry admits objects.
func checkAdmitted[T object.Object](t *testing.T, what string, objects ...T) {
	t.Helper()
	for i, o := range objects {
		o = object.Clone(o)
		if meta := o.GetMetadata(); meta.GetName() == "" {
			meta.Name = meta.GetGenerateName() + letters(10)
		}
		if found := violations(o); len(found) > 0 {
			t.Errorf("%s %d of %d (%d bytes): %s", what, i, len(objects), sizeOf(o), found[0])
		}
	}
}

// TestTheLargestServicesHaveEndpoints makes slices and Endpoints of services and pods that are as large as the registry admits.
// The registry admits them, and no pod is missing in the slices.
func TestTheLargestServicesHaveEndpoints(t *testing.T) {
	sameNumber := func(int, *corev1.Pod) {}
	namedPort := &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "web"}}
	for _, c := range []struct {
		name      string
		svc       *corev1.Service
		pods      int
		change    func(int, *corev1.Pod)
		truncated bool
	}{
		{"as many ports as possible", largeService(servicePorts(20000)), 1001, sameNumber, true},
		{"as many bytes of ports as possible", largeService(largestPorts()), 1001, sameNumber, true},
		{"as many pods in a slice as possible", largeService(servicePorts(1)), 1000, sameNumber, false},
		{"another number in each pod", func() *corev1.Service {
			svc := largeService(servicePorts(2000))
			for _, p := range svc.Spec.Ports[:100] {
				p.TargetPort = namedPort
			}
			return svc
		}(), 150, func(i int, p *corev1.Pod) {
			p.Spec.Containers = []*corev1.Container{{Name: "c", Ports: []*corev1.ContainerPort{{Name: "web", ContainerPort: int32(8000 + i)}}}}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := largePods(c.pods, c.change)
			checkAdmitted(t, "service", c.svc)
			checkAdmitted(t, "pod", pods...)
			zone := longLabel(0)
			verdicts := EvaluatePods(c.svc, pods, func(string) (Node, bool) { return Node{Ready: true, Zone: zone}, true }, nil)
			w := SlicesFromPods(c.svc, verdicts, spec.MaxEndpointsPerSlice)
			w.Template.Trigger = "2006-01-02T15:04:05.999999999Z"
			plan := Pack(w, nil)
			checkAdmitted(t, "slice", plan.Create...)
			var found []string
			for _, s := range plan.Create {
				for _, ep := range s.GetEndpoints() {
					found = append(found, ep.GetAddresses()...)
					if n := ep.SizeVT(); n < maxEndpointBytes*9/10 || n+4 > maxEndpointBytes {
						t.Fatalf("an endpoint of the largest pod has %d bytes, and the bound is %d", n, maxEndpointBytes)
					}
				}
			}
			if slices.Sort(found); len(slices.Compact(found)) != c.pods {
				t.Errorf("the slices have %d of %d pods", len(found), c.pods)
			}
			e := EndpointsFromPods(c.svc, verdicts, w.Template.Trigger, nil)
			checkAdmitted(t, "Endpoints", e)
			addresses := 0
			for _, s := range e.GetSubsets() {
				for _, a := range s.GetAddresses() {
					if n := a.SizeVT(); n < maxAddressBytes*9/10 || n+4 > maxAddressBytes {
						t.Fatalf("an address of the largest pod has %d bytes, and the bound is %d", n, maxAddressBytes)
					}
				}
				addresses += len(s.GetAddresses())
			}
			if got := e.GetMetadata().GetAnnotations()[AnnotationOverCapacity] != ""; got != c.truncated || got != (addresses < c.pods) {
				t.Errorf("the Endpoints has %d of %d addresses, truncated %v, want %v", addresses, c.pods, got, c.truncated)
			}
			if again := EndpointsFromPods(c.svc, verdicts, "later", e); again != e {
				t.Error("a second time the Endpoints is another one")
			}
		})
	}
}

// TestTheLargestEndpointsAreMirrored mirrors Endpoints that are as large as the registry admits.
func TestTheLargestEndpointsAreMirrored(t *testing.T) {
	large := func(subsets ...*corev1.EndpointSubset) *corev1.Endpoints {
		e := &corev1.Endpoints{
			Metadata: &corev1.ObjectMeta{Name: longLabel(0), Namespace: letters(63), Uid: "00000000-0000-0000-0000-000000000000", Labels: map[string]string{}},
			Subsets:  subsets,
		}
		e.Metadata.Annotations = annotationBytes(256 << 10)
		for i := range spec.MaxEndpointsLabels {
			e.Metadata.Labels[longLabelKey(i)] = longLabel(i)
		}
		return e
	}
	addresses := repeat(spec.MaxEndpoints, func(i int) *corev1.EndpointAddress {
		return &corev1.EndpointAddress{Ip: fmt.Sprintf("10.0.%d.%d", i>>8, i&255), Hostname: longLabel(i), NodeName: new(longName(i)), TargetRef: &corev1.ObjectReference{Kind: "VM"}}
	})
	full := large(&corev1.EndpointSubset{Addresses: addresses})
	each := (kinds.Of(full).MaxBytes - sizeOf(full)) / len(addresses)
	for _, a := range addresses { // the name of a reference has no limit
		a.TargetRef.Name = letters(each - 8)
	}
	for name, e := range map[string]*corev1.Endpoints{
		"as many bytes as possible": full,
		"as many ports as possible": large(&corev1.EndpointSubset{Addresses: addresses[:1], Ports: endpointsPorts(endpointPorts(spec.MaxPortsPerSlice))}),
	} {
		t.Run(name, func(t *testing.T) {
			checkAdmitted(t, "Endpoints", e)
			w, problems := SlicesFromEndpoints(e, nil)
			if len(problems) > 0 {
				t.Errorf("problems %v", problems)
			}
			plan := Pack(w, nil)
			checkAdmitted(t, "slice", plan.Create...)
			if n := len(plan.Create[0].GetEndpoints()); n != len(e.GetSubsets()[0].GetAddresses()) {
				t.Errorf("the slice has %d endpoints", n)
			}
		})
	}
}

// TestAMirroredSliceHasTheAnnotationsOfItsEndpoints changes the annotations of an Endpoints. The slice loses those that the
// Endpoints lost, so it never has more than an object may have.
func TestAMirroredSliceHasTheAnnotationsOfItsEndpoints(t *testing.T) {
	e := &corev1.Endpoints{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default", Uid: "e", Annotations: map[string]string{"first": letters(200 << 10)}},
		Subsets:  []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.1"}}}},
	}
	w, _ := SlicesFromEndpoints(e, nil)
	s := Pack(w, nil).Create[0]
	s.Metadata.Name = "web-1"
	e = e.CloneVT()
	e.Metadata.Annotations = map[string]string{"second": letters(200 << 10), AnnotationTrigger: "now"}
	w, _ = SlicesFromEndpoints(e, nil)
	plan := Pack(w, []*corev1.EndpointSlice{s})
	if len(plan.Update) != 1 {
		t.Fatalf("plan %v", plan)
	}
	checkAdmitted(t, "slice", plan.Update...)
	if got := slices.Collect(maps.Keys(plan.Update[0].GetMetadata().GetAnnotations())); !slices.Equal(got, []string{"second"}) {
		t.Errorf("the slice has the annotations %q", got)
	}
	if again := Pack(w, plan.Update); !again.Empty() {
		t.Errorf("a second time: %v", again)
	}
}
