package parity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
)

// endpointSlices has the descriptions of endpointslice.go, endpointslicemirroring.go and
// endpoints.go.
var endpointSlices = []description{
	{"should create and delete EndpointSlices for a Service with a selector that matches no pods", func(s *scene) {
		s.service("web", nil)
		s.endpoints("web")
		s.deleteService("web")
		s.eventually("no slice", func() error {
			if left := s.slices("web"); len(left) > 0 {
				return fmt.Errorf("%d", len(left))
			}
			return nil
		})
	}},
	{"should create and delete Endpoints for a Service with a selector that matches no pods", func(s *scene) {
		s.service("web", nil)
		s.eventually("an Endpoints", func() error { return s.found("Endpoints", "web") })
		s.deleteService("web")
		s.eventually("no Endpoints", func() error {
			if err := s.found("Endpoints", "web"); err == nil {
				return fmt.Errorf("it is there")
			}
			return nil
		})
	}},
	{"should create Endpoints and EndpointSlices for Pods matching a Service", func(s *scene) {
		s.service("web", nil, httpPort, named("named", 81, "http"))
		a, b := s.pod("web", 0), s.pod("web", 1, onPort8081)
		want := []string{a.addrs[0].String() + " http:8080 named:8080", b.addrs[0].String() + " http:8080 named:8081"}
		s.endpoints("web", want...)
		c := registryv1.NewEndpointSliceServiceClient(s.lab.Conn)
		for _, slice := range s.slices("web") {
			request := &registryv1.DeleteEndpointSliceRequest{Namespace: s.namespace, Name: slice.GetMetadata().GetName()}
			if _, err := c.DeleteEndpointSlice(s.Context(), request); err != nil {
				s.Fatal(err)
			}
		}
		s.endpoints("web", want...) // the controller recreates them
		b.delete()
		s.endpoints("web", a.addrs[0].String()+" http:8080 named:8080")
	}},
	{"should create Endpoints for Pods matching a Service", func(s *scene) {
		s.service("web", nil, named("http", 80, "http"))
		a, b := s.pod("web", 0), s.pod("web", 1, onPort8081)
		want := []string{a.addrs[0].String() + " http:8080", b.addrs[0].String() + " http:8081"}
		slices.Sort(want)
		kind, _ := kinds.Named("Endpoints")
		s.eventually("the Endpoints of web", func() error {
			o, err := s.lab.Registry.Get(s.Context(), kind, s.namespace, "web")
			if err != nil {
				return err
			}
			var got []string
			for _, subset := range o.(*corev1.Endpoints).GetSubsets() {
				for _, address := range subset.GetAddresses() {
					for _, port := range subset.GetPorts() {
						got = append(got, fmt.Sprintf("%s %s:%d", address.GetIp(), port.GetName(), port.GetPort()))
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("%q, want %q", got, want)
			}
			return nil
		})
	}},
	{"should support creating EndpointSlice API operations", func(s *scene) {
		c := registryv1.NewEndpointSliceServiceClient(s.lab.Conn)
		slice := s.slice("one", "web", "http", 8080, "10.244.250.1")
		slice.Metadata.Labels["round"] = "2"
		updated, err := c.UpdateEndpointSlice(s.Context(), &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice})
		if err != nil || updated.GetEndpointSlice().GetMetadata().GetResourceVersion() <= slice.GetMetadata().GetResourceVersion() {
			s.Errorf("%v: %v", updated, err)
		}
		if got := s.slices("web"); len(got) != 1 || got[0].GetMetadata().GetLabels()["round"] != "2" {
			s.Errorf("listed: %v", got)
		}
		if _, err := c.DeleteEndpointSlice(s.Context(), &registryv1.DeleteEndpointSliceRequest{Namespace: s.namespace, Name: "one"}); err != nil {
			s.Error(err)
		}
		if err := s.found("EndpointSlice", "one"); err == nil {
			s.Error("it is still there")
		}
	}},
	{"should support a Service with multiple ports specified in multiple EndpointSlices", func(s *scene) {
		svc, p, from := s.service("web", unselected, tcp("http", 80, 80), tcp("alt", 81, 81)), s.plug("web", 1), s.client(0).namespace
		p.serve()
		s.slice("one", "web", "http", 8080, p.addrs[0].String())
		s.slice("two", "web", "alt", 8081, p.addrs[0].String())
		s.reaches(from, clusterIP(svc, 80), p)
		s.reaches(from, clusterIP(svc, 81), p)
	}},
	{"should support a Service with multiple endpoint IPs specified in multiple EndpointSlices", func(s *scene) {
		svc, a, b, from := s.service("web", unselected), s.plug("web", 1), s.plug("web", 2), s.client(0).namespace
		a.serve()
		b.serve()
		s.slice("one", "web", "http", 8080, a.addrs[0].String())
		s.slice("two", "web", "http", 8080, b.addrs[0].String())
		s.reaches(from, clusterIP(svc, 80), a, b)
	}},
	{"should mirror a custom Endpoints resource through create update and delete", func(s *scene) {
		svc, a, b, from := s.service("web", unselected), s.plug("web", 1), s.plug("web", 2), s.client(0).namespace
		a.serve()
		b.serve()
		s.custom("web", subset(8080, a))
		s.reaches(from, clusterIP(svc, 80), a)
		s.custom("web", subset(8080, b))
		s.reaches(from, clusterIP(svc, 80), b)
		s.deleteCustom("web")
		s.refused(from, clusterIP(svc, 80))
	}},
	{"should mirror a custom Endpoint with multiple subsets and same IP address", func(s *scene) {
		svc, a := s.service("web", unselected, tcp("http", 80, 80), tcp("alt", 81, 81)), s.plug("web", 1)
		a.serve()
		one, two := subset(8080, a), subset(8081, a)
		two.Ports[0].Name = "alt"
		s.custom("web", one, two)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), a)
		s.reaches(s.client(0).namespace, clusterIP(svc, 81), a)
	}},
	{"should test the lifecycle of an Endpoint", func(s *scene) {
		s.service("web", unselected)
		s.custom("web", &corev1.EndpointSubset{
			Addresses: []*corev1.EndpointAddress{{Ip: "10.244.250.9"}}, Ports: []*corev1.EndpointSubsetPort{{Name: "http", Port: 8080}},
		})
		if err := s.found("Endpoints", "web"); err != nil {
			s.Error(err)
		}
		s.endpoints("web", "10.244.250.9 http:8080")
		s.deleteCustom("web")
		if err := s.found("Endpoints", "web"); err == nil {
			s.Error("it is still there")
		}
	}},
}

func unselected(spec *corev1.ServiceSpec) { spec.Selector = nil }

// found returns an error unless an object exists.
func (s *scene) found(kind, name string) error {
	k, _ := kinds.Named(kind)
	_, err := s.lab.Registry.Get(s.Context(), k, s.namespace, name)
	return err
}

// endpoints waits until the slices of a service have exactly these endpoints, each with its named
// ports.
func (s *scene) endpoints(service string, want ...string) {
	s.Helper()
	slices.Sort(want)
	s.eventually("the slices of "+service, func() error {
		all := s.slices(service)
		var got []string
		for _, slice := range all {
			var ports []string
			for _, p := range slice.GetPorts() {
				ports = append(ports, fmt.Sprintf("%s:%d", p.GetName(), p.GetPort()))
			}
			slices.Sort(ports)
			for _, ep := range slice.GetEndpoints() {
				got = append(got, ep.GetAddresses()[0]+" "+strings.Join(ports, " "))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(all) == 0 {
			return fmt.Errorf("%q in %d slices, want %q", got, len(all), want)
		}
		return nil
	})
}

// slice writes a slice by hand and returns it as stored.
func (s *scene) slice(name, service, portName string, port int32, addresses ...string) *corev1.EndpointSlice {
	s.Helper()
	slice := &corev1.EndpointSlice{Metadata: s.meta(name), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4}
	slice.Metadata.Labels = map[string]string{"kubernetes.io/service-name": service}
	slice.Ports = []*corev1.EndpointPort{{Name: &portName, Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, &corev1.Endpoint{Addresses: []string{a}})
	}
	got, err := registryv1.NewEndpointSliceServiceClient(s.lab.Conn).CreateEndpointSlice(
		s.Context(), &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice},
	)
	if err != nil {
		s.Fatal(err)
	}
	return got.GetEndpointSlice()
}

func subset(port int32, p *pod) *corev1.EndpointSubset {
	return &corev1.EndpointSubset{
		Addresses: []*corev1.EndpointAddress{{Ip: p.addrs[0].String()}},
		Ports:     []*corev1.EndpointSubsetPort{{Name: "http", Port: port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
}

// custom writes an Endpoints by hand.
func (s *scene) custom(name string, subsets ...*corev1.EndpointSubset) {
	s.Helper()
	s.apply(&corev1.Endpoints{Metadata: s.meta(name), Subsets: subsets})
}

func (s *scene) deleteCustom(name string) {
	s.Helper()
	request := &registryv1.DeleteEndpointsRequest{Namespace: s.namespace, Name: name}
	if _, err := registryv1.NewEndpointsServiceClient(s.lab.Conn).DeleteEndpoints(s.Context(), request); err != nil {
		s.Fatal(err)
	}
}
