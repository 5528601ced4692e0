package spec

import (
	"slices"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// balancedPorts returns a load balancer with a port of each protocol.
func balancedPorts(class string, protocols ...string) *corev1.Service {
	svc := &corev1.Service{Spec: &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class}}
	for _, word := range protocols {
		protocol, _ := ParseEnum[corev1.Protocol](word)
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Protocol: protocol})
	}
	return svc
}

func TestCheckBalancerOffer(t *testing.T) {
	tcp, mixed := BalancerOffer{Protocols: []string{"TCP"}}, BalancerOffer{Protocols: []string{"TCP", "UDP"}, MixedProtocols: true}
	either := BalancerOffer{Protocols: []string{"TCP", "UDP"}}
	clusterIP := balancedPorts("", "SCTP")
	clusterIP.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	for name, test := range map[string]struct {
		svc, old *corev1.Service
		offer    BalancerOffer
		want     []string // fields with a text of the message
	}{
		"offered":                        {balancedPorts("", "TCP", "TCP"), nil, tcp, nil},
		"another type":                   {clusterIP, nil, tcp, nil},
		"all that are not offered":       {balancedPorts("", "SCTP", "TCP", "UDP"), nil, tcp, []string{"spec.ports[0].protocol only TCP", "spec.ports[2].protocol only TCP"}},
		"a class that offers nothing":    {balancedPorts("", "TCP"), nil, BalancerOffer{}, []string{"spec.ports[0].protocol no protocol"}},
		"mixed protocols":                {balancedPorts("", "TCP", "UDP", "TCP"), nil, either, []string{"spec.ports[1].protocol one protocol for each service, and another port has TCP"}},
		"mixed protocols are offered":    {balancedPorts("", "TCP", "UDP"), nil, mixed, nil},
		"it had the protocol":            {balancedPorts("", "TCP", "SCTP", "SCTP"), balancedPorts("", "SCTP"), mixed, nil},
		"it had mixed protocols":         {balancedPorts("", "UDP", "TCP"), balancedPorts("", "TCP", "UDP"), either, nil},
		"it had one of mixed protocols":  {balancedPorts("", "TCP", "UDP"), balancedPorts("", "UDP"), either, []string{"spec.ports[0].protocol another port has UDP"}},
		"it had it with another class":   {balancedPorts("", "SCTP"), balancedPorts("example.com/metal", "SCTP"), tcp, []string{`spec.ports[0].protocol "portolan.dev/pool"`}},
		"it had it with the class named": {balancedPorts("portolan.dev/pool", "SCTP"), balancedPorts("", "SCTP"), tcp, nil},
		"it had it with another type":    {balancedPorts("", "SCTP"), clusterIP, tcp, []string{"spec.ports[0].protocol only TCP"}},
		"without ports":                  {balancedPorts(""), nil, tcp, nil},
	} {
		found := CheckBalancerOffer(test.svc, test.old, test.offer)
		if len(found) != len(test.want) {
			t.Errorf("%s: %v, want %q", name, found, test.want)
			continue
		}
		for i, want := range test.want {
			field, text, _ := strings.Cut(want, " ")
			if found[i].Field != field || !strings.Contains(found[i].Message, text) {
				t.Errorf("%s: %v, want %q", name, found[i], want)
			}
		}
	}
}

// TestOffersOfLeases has Leases of which the offers count, and Leases of which they do not.
func TestOffersOfLeases(t *testing.T) {
	offers := BalancerOffers{"portolan.dev/pool": {Protocols: []string{"TCP", "UDP"}, MixedProtocols: true}}
	lease := func(change func(*corev1.Lease)) *corev1.Lease {
		l := &corev1.Lease{
			Metadata: &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: BalancerOffersLease(BalancerLease)},
			Spec:     &corev1.LeaseSpec{HolderIdentity: "cp1"},
		}
		if err := SetBalancerOffers(l, offers); err != nil {
			t.Fatal(err)
		}
		change(l)
		return l
	}
	got := BalancerOffersOf(lease(func(*corev1.Lease) {}))["portolan.dev/pool"]
	if !slices.Equal(got.Protocols, []string{"TCP", "UDP"}) || !got.MixedProtocols {
		t.Errorf("the offer is %+v", got)
	}
	for name, change := range map[string]func(*corev1.Lease){
		"another namespace": func(l *corev1.Lease) { l.Metadata.Namespace = "shop" },
		"another owner":     func(l *corev1.Lease) { l.Metadata.Name = "endpointctl" },
		"no holder":         func(l *corev1.Lease) { l.Spec.HolderIdentity = "" },
		"of a later form":   func(l *corev1.Lease) { l.Metadata.Annotations[object.AnnotationBalancerOffers] = "[]" },
		"other capabilities only": func(l *corev1.Lease) {
			l.Metadata.Annotations[object.AnnotationBalancerOffers] = `{"portolan.dev/pool": {"internal": true}}`
		},
		"no offers": func(l *corev1.Lease) { l.Metadata.Annotations = nil },
	} {
		if got := BalancerOffersOf(lease(change)); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
