package dnstest

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Service returns a service; path is NAMESPACE/NAME. Each text in rest is one of these: "None"
// makes the service headless, an address is a cluster IP, port:name/proto (the last two may be left
// out) is a port, and =name makes it an alias.
func Service(path string, rest ...string) *corev1.Service {
	s := &corev1.Service{Metadata: meta(path), Spec: &corev1.ServiceSpec{}}
	for _, text := range rest {
		if alias, ok := strings.CutPrefix(text, "="); ok {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, alias
			continue
		}
		if _, err := netip.ParseAddr(text); err == nil || text == "None" {
			s.Spec.ClusterIps = append(s.Spec.ClusterIps, text)
			s.Spec.ClusterIp = s.Spec.ClusterIps[0]
			continue
		}
		number, name, proto := port(text)
		s.Spec.Ports = append(s.Spec.Ports, &corev1.ServicePort{Name: name, Protocol: proto, Port: number})
	}
	return s
}

func meta(path string) *corev1.ObjectMeta {
	namespace, name, _ := strings.Cut(path, "/")
	return &corev1.ObjectMeta{Namespace: namespace, Name: name}
}

// port reads number:name/proto.
func port(text string) (number int32, name string, proto corev1.Protocol) {
	text, protoText, _ := strings.Cut(text, "/")
	numberText, name, _ := strings.Cut(text, ":")
	if _, err := fmt.Sscan(numberText, &number); err != nil {
		panic("dnstest: bad port " + text)
	}
	return number, name, corev1.Protocol(corev1.Protocol_value["PROTOCOL_"+strings.ToUpper(protoText)])
}

// Slice returns a slice; path is NAMESPACE/SERVICE/SLICE. A text in rest of the form
// port:name/proto (as in Service, but with "/") is a port. All others are endpoints: address or
// address=hostname. A leading "!" makes the endpoint not ready, a leading "~" publishes it although
// it does not serve, and *weight at the end gives it a weight.
func Slice(path string, rest ...string) *corev1.EndpointSlice {
	parts := strings.Split(path, "/")
	s := &corev1.EndpointSlice{Metadata: meta(parts[0] + "/" + parts[2]), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4}
	s.Metadata.Labels = map[string]string{object.LabelServiceName: parts[1]}
	for _, text := range rest {
		if strings.Contains(text, "/") {
			number, name, proto := port(text)
			s.Ports = append(s.Ports, &corev1.EndpointPort{Name: &name, Protocol: proto, Port: &number})
			continue
		}
		e := endpoint(text)
		if strings.Contains(e.GetAddresses()[0], ":") {
			s.AddressType = corev1.AddressType_ADDRESS_TYPE_IPV6
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func endpoint(text string) *corev1.Endpoint {
	e := &corev1.Endpoint{}
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		text = rest
		e.Conditions = &corev1.EndpointConditions{Ready: new(bool)}
	}
	if rest, ok := strings.CutPrefix(text, "~"); ok {
		text = rest
		ready := true
		e.Conditions = &corev1.EndpointConditions{Ready: &ready, Serving: new(bool)}
	}
	if rest, weightText, ok := strings.Cut(text, "*"); ok {
		var weight uint32
		if _, err := fmt.Sscan(weightText, &weight); err != nil {
			panic("dnstest: bad weight " + text)
		}
		e.Weight, text = &weight, rest
	}
	if rest, hostname, ok := strings.Cut(text, "="); ok {
		e.Hostname, text = &hostname, rest
	}
	e.Addresses = []string{text}
	return e
}

// Namespace returns a namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}
}

// Pod returns a running pod.
func Pod(path string, ips ...string) *corev1.Pod {
	return &corev1.Pod{Metadata: meta(path), Status: &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIps: ips, PodIp: ips[0]}}
}
