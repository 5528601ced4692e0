package soak

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/object"
)

// Every fourth version of a service is its absence. The others have this many endpoints.
const (
	absentEvery = 4
	endpoints   = 3
)

// Model holds the range of possible versions of each service.
type Model struct {
	Zone     string // with a final dot
	services []versions
}

type versions struct{ begun, done atomic.Int64 }

// NewModel returns a model of n services at version 1.
func NewModel(zone string, n int) *Model {
	m := &Model{Zone: zone, services: make([]versions, n)}
	for i := range m.services {
		m.services[i].begun.Store(1)
		m.services[i].done.Store(1)
	}
	return m
}

// Objects returns the objects of the first version of all services.
func (m *Model) Objects() []object.Object {
	var all []object.Object
	for i := range m.services {
		put, _ := m.objects(i, 1)
		all = append(all, put...)
	}
	return all
}

// Step makes the next version of a service. It hands the changed objects to apply, which returns
// once all answers derive from them. A service takes one step at a time.
func (m *Model) Step(i int, apply func(put, remove []object.Object) error) error {
	v := m.services[i].begun.Add(1)
	put, remove := m.objects(i, v)
	if err := apply(put, remove); err != nil {
		return err
	}
	m.services[i].done.Store(v)
	return nil
}

func name(i int) string { return fmt.Sprintf("svc-%d", i) }

// objects returns the objects of a version of service i. The names change with the last object that
// is put, or with the first that is removed.
func (m *Model) objects(i int, version int64) (put, remove []object.Object) {
	service := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "soak", Name: name(i)},
		Spec:     &corev1.ServiceSpec{ClusterIp: "None", ClusterIps: []string{"None"}},
	}
	portName, portNumber := "p", int32(version%60000+1)
	slice := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "soak", Name: name(i) + "-1", Labels: map[string]string{object.LabelServiceName: name(i)}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Name: &portName, Port: &portNumber}},
	}
	for e := range endpoints {
		host := fmt.Sprintf("e%d", e)
		slice.Endpoints = append(slice.Endpoints, &corev1.Endpoint{Addresses: []string{address(version, e).String()}, Hostname: &host})
	}
	if version%absentEvery == 0 {
		return nil, []object.Object{service, slice}
	}
	return []object.Object{service, slice}, nil
}

// address returns the address of an endpoint: 22 bits for the version, 2 bits for the endpoint.
func address(version int64, endpoint int) netip.Addr {
	v := uint32(version)<<2 | uint32(endpoint)
	return netip.AddrFrom4([4]byte{10, byte(v >> 16), byte(v >> 8), byte(v)})
}

const maxVersion = 1 << 22

func versionOf(a *dns.A) int64 {
	ip := a.A.To4()
	return int64(ip[1])<<14 | int64(ip[2])<<6 | int64(ip[3])>>2
}

// Question is a question with the oldest version that may answer it.
type Question struct {
	Name  string
	Type  uint16
	index int
	least int64
}

// Question makes the n-th question about a service.
func (m *Model) Question(i, n int) Question {
	q := Question{index: i, least: m.services[i].done.Load()}
	base := name(i) + ".soak.svc." + m.Zone
	switch n % 4 {
	case 0:
		q.Name, q.Type = base, dns.TypeA
	case 1:
		q.Name, q.Type = "_p._tcp."+base, dns.TypeSRV
	case 2:
		q.Name, q.Type = "e1."+base, dns.TypeA
	case 3:
		q.Name, q.Type = base, dns.TypeAAAA
	}
	return q
}

// Check returns an error if an answer that has just arrived is wrong.
func (m *Model) Check(q Question, reply *dns.Msg) error {
	most := m.services[q.index].begun.Load()
	if most >= maxVersion {
		return fmt.Errorf("version %d: the model has no more", most)
	}
	absence, presence := possible(q.least, most)
	switch {
	case reply.Truncated || len(reply.Question) != 1 || !strings.EqualFold(reply.Question[0].Name, q.Name):
		return fmt.Errorf("torn: %s", reply)
	case reply.Rcode == dns.RcodeNameError && !absence:
		return fmt.Errorf("%s is not absent in versions %d-%d", q.Name, q.least, most)
	case reply.Rcode == dns.RcodeNameError:
		return nil
	case reply.Rcode != dns.RcodeSuccess || !presence:
		return fmt.Errorf("%s: %s in versions %d-%d", q.Name, dns.RcodeToString[reply.Rcode], q.least, most)
	case q.Type == dns.TypeAAAA && len(reply.Answer) > 0:
		return fmt.Errorf("%s has no AAAA records: %s", q.Name, reply)
	case q.Type == dns.TypeAAAA:
		return nil
	}
	return checkRecords(q, reply, most)
}

// possible reports whether absence, and whether presence, is among the versions.
func possible(least, most int64) (absence, presence bool) {
	for v := least; v <= most && v < least+absentEvery; v++ {
		absence = absence || v%absentEvery == 0
		presence = presence || v%absentEvery != 0
	}
	return absence, presence
}

// checkRecords checks that all records are there and have the same possible version.
func checkRecords(q Question, reply *dns.Msg, most int64) error {
	want := endpoints
	if strings.HasPrefix(q.Name, "e1.") {
		want = 1
	}
	if len(reply.Answer) != want {
		return fmt.Errorf("%s: %d records, want %d", q.Name, len(reply.Answer), want)
	}
	version, seen := int64(-1), map[string]bool{}
	for _, rr := range append(reply.Answer, reply.Extra...) {
		a, ok := rr.(*dns.A)
		if !ok {
			continue
		}
		if v := versionOf(a); version != -1 && v != version {
			return fmt.Errorf("%s: torn between versions %d and %d", q.Name, version, v)
		}
		version = versionOf(a)
		seen[a.A.String()] = true
	}
	for _, rr := range reply.Answer {
		if srv, ok := rr.(*dns.SRV); ok && int64(srv.Port) != version%60000+1 {
			return fmt.Errorf("%s: port %d with addresses of version %d", q.Name, srv.Port, version)
		}
	}
	if len(seen) != want {
		return fmt.Errorf("%s: addresses %v, want %d", q.Name, seen, want)
	}
	if version < q.least || version > most {
		return fmt.Errorf("%s: version %d, may be %d-%d", q.Name, version, q.least, most)
	}
	return nil
}
