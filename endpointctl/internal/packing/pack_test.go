package packing

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
)

// cluster is a small registry that holds slices and executes plans.
type cluster struct {
	slices  []*corev1.EndpointSlice
	created int
}

// apply executes a plan stage by stage, with the writes of a stage in any order. It checks that every
// endpoint that is in a slice before and after the plan is in some slice after each write.
func (c *cluster) apply(t *rapid.T, p Plan) {
	before := c.keys()
	var seen []map[string]bool // after each write
	defer func() {
		after := c.keys()
		for key := range before {
			for n, keys := range seen {
				if after[key] && !keys[key] {
					t.Fatalf("%s is in no slice after %d writes of %+v", key, n+1, p)
				}
			}
		}
	}()
	for _, stage := range p.Stages() {
		var writes []func()
		for _, s := range stage.Create {
			writes = append(writes, func() { c.create(s) })
		}
		for _, u := range stage.Update {
			writes = append(writes, func() { c.update(t, u) })
		}
		for _, d := range stage.Delete {
			writes = append(writes, func() { c.delete(t, d) })
		}
		for _, n := range rapid.Permutation(indices(len(writes))).Draw(t, "order") {
			writes[n]()
			seen = append(seen, c.keys())
		}
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (c *cluster) create(s *corev1.EndpointSlice) {
	c.created++
	s.Metadata.Name = fmt.Sprintf("%s%d", s.GetMetadata().GetGenerateName(), c.created)
	c.slices = append(c.slices, s)
}

func (c *cluster) update(t *rapid.T, u *corev1.EndpointSlice) {
	at := c.find(u)
	if at < 0 || c.slices[at].GetAddressType() != u.GetAddressType() {
		t.Fatalf("update of %v, which is not there or of another address type", u)
	}
	c.slices[at] = u
}

func (c *cluster) delete(t *rapid.T, d *corev1.EndpointSlice) {
	at := c.find(d)
	if at < 0 {
		t.Fatalf("delete of %v, which is not there", d)
	}
	c.slices = slices.Delete(c.slices, at, at+1)
}

func (c *cluster) keys() map[string]bool {
	all := map[string]bool{}
	for _, s := range c.slices {
		maps.Copy(all, keysOf(s))
	}
	return all
}

func (c *cluster) find(s *corev1.EndpointSlice) int {
	return slices.IndexFunc(c.slices, func(x *corev1.EndpointSlice) bool { return x.GetMetadata().GetName() == s.GetMetadata().GetName() })
}

// check checks that the slices are the wanted ones.
func (c *cluster) check(t *rapid.T, w DesiredSlices) {
	seen := map[groupKey]map[string]*corev1.Endpoint{}
	empty := map[corev1.AddressType]int{}
	all := map[corev1.AddressType]int{}
	for _, s := range c.slices {
		if len(s.GetEndpoints()) > w.MaxPerSlice {
			t.Fatalf("a slice has %d endpoints", len(s.GetEndpoints()))
		}
		if !w.Template.matches(s) {
			t.Fatalf("metadata is %v", s.GetMetadata())
		}
		all[s.GetAddressType()]++
		if len(s.GetEndpoints()) == 0 {
			empty[s.GetAddressType()]++
		}
		g := seen[sliceKey(s)]
		if g == nil {
			g = map[string]*corev1.Endpoint{}
			seen[sliceKey(s)] = g
		}
		for _, ep := range s.GetEndpoints() {
			if g[endpointKey(ep)] != nil {
				t.Fatalf("%v is in two slices", ep)
			}
			g[endpointKey(ep)] = ep
		}
	}
	for i := range w.Groups {
		g := &w.Groups[i]
		if len(seen[g.key()]) != len(g.Endpoints) {
			t.Fatalf("group %v has %d endpoints, want %d", g.key(), len(seen[g.key()]), len(g.Endpoints))
		}
		for _, ep := range g.Endpoints {
			if !seen[g.key()][endpointKey(ep)].EqualVT(ep) {
				t.Fatalf("endpoint is %v, want %v", seen[g.key()][endpointKey(ep)], ep)
			}
		}
		delete(seen, g.key())
	}
	for key, endpoints := range seen {
		if len(endpoints) > 0 {
			t.Fatalf("nobody wants %v", endpoints)
		}
		_ = key
	}
	for _, family := range w.Families {
		if all[family] == 0 || empty[family] > 0 && all[family] > 1 {
			t.Fatalf("%v: %d slices, of which %d are empty", family, all[family], empty[family])
		}
	}
}

func portSet(n int32) []*corev1.EndpointPort {
	name := "http"
	return []*corev1.EndpointPort{{Name: &name, Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &n}}
}

func testEndpoint(i int, ready bool) *corev1.Endpoint {
	return &corev1.Endpoint{
		Addresses:  []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)},
		Conditions: &corev1.EndpointConditions{Ready: &ready},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("p%d", i)},
	}
}

func testTemplate(label string) Template {
	return serviceTemplate(&corev1.Service{Metadata: &corev1.ObjectMeta{
		Name: "web", Namespace: "default", Uid: "u", Labels: map[string]string{"tier": label},
	}})
}

const ipv4 = corev1.AddressType_ADDRESS_TYPE_IPV4

func drawDesired(t *rapid.T) DesiredSlices {
	w := DesiredSlices{
		Template: testTemplate(rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "label")), MaxPerSlice: 4,
		Families: []corev1.AddressType{ipv4},
	}
	for port := range int32(rapid.IntRange(0, 3).Draw(t, "groups")) {
		g := Group{AddressType: ipv4, Ports: portSet(8000 + port)}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 1, 15, rapid.ID).Draw(t, "endpoints") {
			g.Endpoints = append(g.Endpoints, testEndpoint(i, rapid.Bool().Draw(t, "ready")))
		}
		w.Groups = append(w.Groups, g)
	}
	return w
}

// moves reports whether a plan moves an endpoint from one slice to another.
func moves(p Plan, before []*corev1.EndpointSlice) bool {
	of := map[string]string{} // names of slices by endpoint
	for _, s := range before {
		for key := range keysOf(s) {
			of[key] = s.GetMetadata().GetName()
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Create, p.Update), func(s *corev1.EndpointSlice) bool {
		for key := range keysOf(s) {
			if from, was := of[key]; was && from != s.GetMetadata().GetName() {
				return true
			}
		}
		return false
	})
}

func TestPackReachesWhatIsWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cluster
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			w := drawDesired(t)
			before := slices.Clone(c.slices)
			p := Pack(w, c.slices)
			if len(p.Create) > 0 && len(p.Delete) > 0 && !moves(p, before) {
				t.Fatalf("%d creates and %d deletes could have been updates", len(p.Create), len(p.Delete))
			}
			for i, s := range before {
				if s != c.slices[i] {
					t.Fatal("Pack changed its input")
				}
			}
			c.apply(t, p)
			c.check(t, w)
			if again := Pack(w, c.slices); !again.Empty() {
				t.Fatalf("a second time: %v", again)
			}
		}
	})
}

func TestASingleChangeIsASingleWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := DesiredSlices{Template: testTemplate("a"), MaxPerSlice: 5, Families: []corev1.AddressType{ipv4}}
		g := Group{AddressType: ipv4, Ports: portSet(80)}
		var c cluster
		for i := range rapid.IntRange(1, 40).Draw(t, "n") {
			g.Endpoints = append(g.Endpoints, testEndpoint(i, true))
		}
		w.Groups = []Group{g}
		c.apply(t, Pack(w, nil))
		g.Endpoints = slices.Clone(g.Endpoints)
		at := rapid.IntRange(0, len(g.Endpoints)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			g.Endpoints = append(g.Endpoints, testEndpoint(99, true))
		case 1:
			g.Endpoints = slices.Delete(g.Endpoints, at, at+1)
		default:
			g.Endpoints[at] = testEndpoint(at, false)
		}
		w.Groups = []Group{g}
		if len(g.Endpoints) == 0 {
			w.Groups = nil
		}
		p := Pack(w, c.slices)
		if n := len(p.Create) + len(p.Update) + len(p.Delete); n != 1 {
			t.Fatalf("%d writes for one change: %v", n, p)
		}
		c.apply(t, p)
		c.check(t, w)
	})
}

func TestNewEndpointsFillTheRightSlice(t *testing.T) {
	slice := func(name string, from, n int) *corev1.EndpointSlice {
		template := testTemplate("a")
		s := template.newSlice(ipv4, portSet(80))
		s.Metadata.Name = name
		for i := range n {
			s.Endpoints = append(s.Endpoints, testEndpoint(from+i, true))
		}
		return s
	}
	wanted := func(indices ...int) DesiredSlices {
		w := DesiredSlices{Template: testTemplate("a"), MaxPerSlice: 10, Families: []corev1.AddressType{ipv4}, Groups: []Group{{AddressType: ipv4, Ports: portSet(80)}}}
		for _, i := range indices {
			w.Groups[0].Endpoints = append(w.Groups[0].Endpoints, testEndpoint(i, true))
		}
		return w
	}
	span := func(from, n int) (all []int) {
		for i := range n {
			all = append(all, from+i)
		}
		return all
	}
	existing := []*corev1.EndpointSlice{slice("a", 0, 5), slice("b", 20, 7), slice("c", 40, 10)}
	have := slices.Concat(span(0, 5), span(20, 7), span(40, 10))
	for _, c := range []struct {
		name   string
		wanted []int
		want   string
	}{
		{"nothing", have, ""},
		{"the fullest that has room", slices.Concat(have, span(60, 3)), "update b 10"},
		{"the one that has room for all", slices.Concat(have, span(60, 4)), "update a 9"},
		{"a new one", slices.Concat(have, span(60, 6)), "create 6"},
		{"full new ones first", slices.Concat(have, span(60, 13)), "create 10 update b 10"},
		{"one that is written anyway", slices.Concat(span(0, 4), span(20, 7), span(40, 10), span(60, 2)), "update a 6"},
		{"a gap stays where it is", slices.Concat(span(0, 5), span(20, 7), span(40, 9)), "update c 9"},
		{"an empty one goes", slices.Concat(span(20, 7), span(40, 10)), "delete a"},
		{"one that would go is used", slices.Concat(span(20, 7), span(40, 10), span(60, 5)), "update a 5"},
	} {
		p := Pack(wanted(c.wanted...), existing)
		got := ""
		for _, s := range p.Create {
			got += fmt.Sprintf("create %d ", len(s.GetEndpoints()))
		}
		for _, s := range p.Update {
			got += fmt.Sprintf("update %s %d ", s.GetMetadata().GetName(), len(s.GetEndpoints()))
		}
		for _, s := range p.Delete {
			got += fmt.Sprintf("delete %s ", s.GetMetadata().GetName())
		}
		if len(got) > 0 {
			got = got[:len(got)-1]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
