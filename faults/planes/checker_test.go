package planes

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// service returns a service with an address.
func service(name, ip string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: &corev1.ServiceSpec{
			ClusterIp: ip, ClusterIps: []string{ip}, Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	}
}

// slice returns a slice of a service with these ready addresses.
func slice(service string, addresses ...string) *corev1.EndpointSlice {
	name, port := "http", int32(8080)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: service + "-1", Labels: map[string]string{"kubernetes.io/service-name": service}},
		Ports:    []*corev1.EndpointPort{{Name: &name, Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// log returns a log that begins after revision 10: the first object is put at revision 11. A nil
// object stands for an unrelated write.
func log(objects ...object.Object) history.Log {
	l := history.Log{Base: 10}
	for n, o := range objects {
		if o == nil {
			o = &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: "other"}}
		}
		l.Changes = append(l.Changes, &registryv1.Change{
			Revision: l.Base + uint64(n) + 1, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Object: object.Wrap(o),
		})
	}
	return l
}

// withDeletion returns the log with the deletion of an object at the next revision.
func withDeletion(l history.Log, o object.Object) history.Log {
	l.Changes = append(l.Changes, &registryv1.Change{
		Revision: l.Head() + 1, Type: registryv1.ChangeType_CHANGE_TYPE_DELETE, Object: object.Wrap(o),
	})
	return l
}

func at(address string) Frontend {
	return Frontend{netip.MustParseAddrPort(address), corev1.Protocol_PROTOCOL_TCP}
}

// reading returns a reading from revision low to high, in which kernel and agent have the same
// content.
func reading(low, high uint64, content Content, more ...func(*Reading)) Reading {
	r := Reading{Low: low, High: high, MaxPlanRevision: high, Kernel: content, AgentPlan: content}
	for _, m := range more {
		m(&r)
	}
	return r
}

func restarted(r *Reading) { r.Restarted, r.AgentPlan = true, Content{} }

func withAgentPlan(c Content) func(*Reading) { return func(r *Reading) { r.AgentPlan = c } }

func withFailure(service string) func(*Reading) {
	return func(r *Reading) { r.Failing = map[string]bool{service: true} }
}

func notProgrammed(address string) func(*Reading) {
	return func(r *Reading) { r.NotProgrammed = map[Frontend]string{at(address): "not programmed yet"} }
}

func TestChecker(t *testing.T) {
	const a, b, c = "10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"
	// The service is created at 11. Its backends are a at 12, a and b at 13, b and c at 15. The
	// service is deleted at 16.
	serviceLog := withDeletion(log(service("web", "10.96.0.1"), slice("web", "10.1.0.1"), slice("web", "10.1.0.1", "10.1.0.2"), nil,
		slice("web", "10.1.0.2", "10.1.0.3")), service("web", "10.96.0.1"))
	// Both services claim the address; web has one backend and api another one.
	conflictLog := log(service("web", "10.96.0.1"), slice("web", "10.1.0.1"), service("api", "10.96.0.1"), slice("api", "10.1.0.2"))
	vip := func(backends ...string) Content { return Content{at("10.96.0.1:80"): backends} }
	for _, v := range []struct {
		name          string
		log           history.Log
		r             Reading
		frontendsOnly bool // frontends only
		want          string
	}{
		{"as planned", serviceLog, reading(13, 13, vip(a, b)), false, ""},
		{"without backends", serviceLog, reading(11, 11, vip()), false, ""},
		{"one backend is missing", serviceLog, reading(13, 13, vip(a)), false, "has [" + a + "], want at least [" + a + " " + b + "]"},
		{"as at the previous revision", serviceLog, reading(12, 12, vip(a, b)), false, "at most [" + a + "]"},
		{"as at the next revision", serviceLog, reading(13, 13, vip(b, c)), false, "want at least"},
		{"another write changes nothing", serviceLog, reading(14, 14, vip(a, b)), false, ""},
		{"between two revisions", serviceLog, reading(14, 15, vip(a, b, c)), false, ""},
		{"between two revisions, as before", serviceLog, reading(14, 15, vip(a, b)), false, ""},
		{"between two revisions, as after", serviceLog, reading(14, 15, vip(b, c)), false, ""},
		{"between two revisions, without a backend of both", serviceLog, reading(14, 15, vip(a, c)), false, "want at least [" + b + "]"},
		{"between two revisions, with a backend of neither", serviceLog, reading(12, 13, vip(a, c)), false, "at most [" + a + " " + b + "]"},
		{"missing", serviceLog, reading(13, 15, Content{}), false, "is missing, want [" + a + " " + b + " " + c + "]"},
		{"deleted", serviceLog, reading(16, 16, Content{}), false, ""},
		{"deleted between two revisions", serviceLog, reading(15, 16, Content{}), false, ""},
		{"not deleted", serviceLog, reading(16, 16, vip(b, c)), false, "which is not planned"},
		{"not deleted after a restart", serviceLog, reading(16, 16, vip(b, c), restarted), false, ""},
		{"other backends after a restart", serviceLog, reading(13, 13, vip(c), restarted), false, "want at least"},
		{"deleted between two revisions, and the service fails", serviceLog, reading(15, 16, Content{}, withFailure("ns/web")), false, ""},
		{"missing, and the service fails", serviceLog, reading(13, 13, Content{}, withFailure("ns/web")), false, ""},
		{"missing, and another service fails", serviceLog, reading(13, 13, Content{}, withFailure("ns/other")), false, "is missing"},
		{"a frontend of no service", serviceLog, reading(13, 13, Content{at("10.96.0.1:80"): {a, b}, at("10.96.0.9:80"): {a}}), false, "10.96.0.9:80/TCP has"},
		{"another plan of the agent", serviceLog, reading(13, 13, vip(a, b), withAgentPlan(vip(a))), false, "the agent's plan: 10.96.0.1:80/TCP has"},
		{"not programmed", serviceLog, reading(13, 13, vip(a, b), notProgrammed("10.96.0.1:80")), false, "is reported as not programmed"},
		{"not programmed during a change", serviceLog, reading(14, 15, vip(a, b), notProgrammed("10.96.0.1:80")), false, ""},
		{"a socket", serviceLog, reading(13, 13, vip(), withAgentPlan(vip(a, b))), true, ""},
		{"a socket without backends", serviceLog, reading(11, 11, vip()), true, "which is not planned"},
		{"no socket without backends", serviceLog, reading(11, 11, Content{}, withAgentPlan(vip())), true, ""},
		{"no socket", serviceLog, reading(13, 13, Content{}, withAgentPlan(vip(a, b))), true, "is missing"},
		{"backends of the first service with the address", conflictLog, reading(14, 14, vip(a)), false, ""},
		{"backends of the second service with the address", conflictLog, reading(14, 14, vip(b)), false, ""},
		{"backends of neither service with the address", conflictLog, reading(14, 14, vip(c)), false, "at most"},
		{"before the log", serviceLog, reading(9, 9, Content{}), false, "was never read"},
		{"after the log", serviceLog, reading(16, 17, vip(a)), false, "was never read"},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := &Watcher{Node: "node", FrontendsOnly: v.frontendsOnly, readings: []Reading{v.r}}
			var text []string
			for _, f := range (Checker{[]*Watcher{w}}).Check(&history.History{Log: v.log}) {
				text = append(text, f.String())
			}
			got := strings.Join(text, "\n")
			if v.want == "" && got != "" || !strings.Contains(got, v.want) {
				t.Errorf("found %q, want %q", got, v.want)
			}
		})
	}
}
