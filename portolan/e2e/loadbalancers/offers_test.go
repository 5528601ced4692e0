package loadbalancers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// awaitOffers waits until lbctl has reported the capabilities of a class, or until it has reported none.
func (i *installation) awaitOffers(class string, reported bool) {
	i.Helper()
	leases := registryv1.NewLeaseServiceClient(i.dial("registry"))
	kittest.Eventually(i.T, "the capabilities of "+class, func() error {
		resp, err := leases.GetLease(i.Context(), &registryv1.GetLeaseRequest{Namespace: "default", Name: "lbctl-offers"})
		if err != nil {
			return err
		}
		offers := spec.BalancerOffersOf(resp.GetLease())
		if _, ok := offers[class]; ok != reported {
			return fmt.Errorf("reported are %v", offers)
		}
		return nil
	})
}

// tryCreate creates a service, once.
func (i *installation) tryCreate(svc *corev1.Service, dryRun bool) error {
	_, err := i.services.CreateService(i.Context(), &registryv1.CreateServiceRequest{Service: svc, DryRun: dryRun})
	return err
}

// tryUpdate changes a service, once.
func (i *installation) tryUpdate(name string, dryRun bool, change ...func(*corev1.Service)) error {
	svc := i.get(name)
	for _, c := range change {
		c(svc)
	}
	_, err := i.services.UpdateService(i.Context(), &registryv1.UpdateServiceRequest{Service: svc, DryRun: dryRun})
	return err
}

// wantRefused wants an error with one violation, in a field, that has some texts.
func wantRefused(t *testing.T, write string, err error, field string, texts ...string) {
	t.Helper()
	found := apierr.ViolationsOf(err)
	if len(found) != 1 || found[0].Field != field || found[0].Reason != apierr.ReasonNotSupported {
		t.Errorf("%s: %v (%v); want one violation in %s", write, err, found, field)
		return
	}
	for _, text := range texts {
		if !strings.Contains(found[0].Message, text) {
			t.Errorf("%s: %q lacks %q", write, found[0].Message, text)
		}
	}
}

func clusterIP(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP }

func loadBalancer(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER }

// TestAProtocolThatNoProviderOffersIsRefused has writes of every kind of load balancers with a protocol that the
// provider of their class does not forward.
func TestAProtocolThatNoProviderOffersIsRefused(t *testing.T) {
	p := newProvider(t)
	p.Can.Protocols = append(p.Can.Protocols, sctp)
	i := install(t, p.serves(metal))
	i.awaitOffers(metal, true)
	phone := func(more ...func(*corev1.Service)) *corev1.Service {
		return balanced("phone", append(more, withPort("m2ua", 2904, sctp))...)
	}
	pool := []string{`unsupported value "SCTP"`, `the class "portolan.dev/pool" forward only TCP, UDP`, "type NodePort"}
	const field = "spec.ports[1].protocol"
	wantRefused(t, "create", i.tryCreate(phone(), false), field, pool...)
	wantRefused(t, "create, dry run", i.tryCreate(phone(), true), field, pool...)
	wantRefused(t, "create with the class", i.tryCreate(phone(class("portolan.dev/pool")), false), field, pool...)
	wantRefused(t, "UDP of an edge", i.tryCreate(balanced("dns", class("portolan.dev/edge"), func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = udp }), false),
		"spec.ports[0].protocol", `the class "portolan.dev/edge" forward only TCP`)
	_, err := registryv1.NewApplyServiceClient(i.dial("registry")).Apply(i.Context(), &registryv1.ApplyRequest{Object: object.Wrap(phone())})
	wantRefused(t, "apply", err, field, pool...)

	i.create(balanced("phone", clusterIP, withPort("m2ua", 2904, sctp)))
	wantRefused(t, "update of the type", i.tryUpdate("phone", false, loadBalancer), field, pool...)
	wantRefused(t, "update of the type, dry run", i.tryUpdate("phone", true, loadBalancer), field, pool...)
	i.create(balanced("web"))
	wantRefused(t, "update of the ports", i.tryUpdate("web", false, withPort("m2ua", 2904, sctp)), field, pool...)

	wantRefused(t, "mixed protocols", i.tryCreate(balanced("metal", class(metal), withPort("m2ua", 2904, sctp)), false),
		field, `unsupported value "SCTP"`, `the class "example.com/metal" take one protocol for each service, and another port has TCP`)
	if err := i.tryCreate(balanced("metal", class(metal), func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = sctp }), false); err != nil {
		t.Errorf("a protocol that the class offers: %v", err)
	}
	i.awaitAddresses("metal", 1)
	if err := i.tryCreate(balanced("none", class("example.com/none"), withPort("m2ua", 2904, sctp)), false); err != nil {
		t.Errorf("a class without a provider: %v", err)
	}
}

// TestAnEarlierServiceStaysChangeable has a service that was created before lbctl has reported that no provider
// forwards its protocol. Its status and an Event say so, and the registry still takes changes of it.
func TestAnEarlierServiceStaysChangeable(t *testing.T) {
	i := installWithoutLBCtl(t)
	i.create(balanced("phone", withPort("m2ua", 2904, sctp)))
	i.startLBCtl()
	i.awaitOffers("portolan.dev/pool", true)
	const text = "the provider portolan.dev/pool forwards no SCTP (port 2904/SCTP)"
	i.awaitReason("phone", "Refused", text)
	i.awaitWarning("phone", "SyncLoadBalancerFailed", text)
	for name, change := range map[string]func(*corev1.Service){
		"a label":                     func(svc *corev1.Service) { svc.Metadata.Labels = map[string]string{"tier": "voice"} },
		"a port of the same protocol": withPort("m3ua", 2905, sctp),
		"a port that is offered":      withPort("dns", 53, udp),
	} {
		if err := i.tryUpdate("phone", true, change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.delete("phone")
	i.awaitGone("phone")
}

// awaitWarning waits for an Event of the type Warning.
func (i *installation) awaitWarning(name, reason, text string) {
	i.Helper()
	kittest.Eventually(i.T, "a warning "+reason, func() error {
		resp, err := i.events.ListEvents(i.Context(), &registryv1.ListEventsRequest{Namespace: "default", FieldSelector: "regarding.name=" + name})
		if err != nil {
			return err
		}
		for _, e := range resp.GetEvents() {
			if e.GetType() == corev1.EventType_EVENT_TYPE_WARNING && e.GetReason() == reason && strings.Contains(e.GetMessage(), text) {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// TestUnknownCapabilitiesRefuseNothing has classes with capabilities that are not known: of a provider that does not
// answer, without lbctl, and when the report of an lbctl that has gone is too old.
func TestUnknownCapabilitiesRefuseNothing(t *testing.T) {
	p := newProvider(t)
	i := installWithoutLBCtl(t)
	phone := func(name string, more ...func(*corev1.Service)) *corev1.Service {
		return balanced(name, append(more, withPort("m2ua", 2904, sctp))...)
	}
	if err := i.tryCreate(phone("without"), true); err != nil {
		t.Errorf("without an lbctl: %v", err)
	}
	p.stop()
	i.startLBCtl(p.serves(metal))
	i.awaitOffers("portolan.dev/pool", true)
	i.awaitOffers(metal, false)
	if err := i.tryCreate(phone("silent", class(metal)), true); err != nil {
		t.Errorf("the class of a provider that does not answer: %v", err)
	}
	wantRefused(t, "another class meanwhile", i.tryCreate(phone("pooled"), true), "spec.ports[1].protocol")

	i.stopLBCtl()
	i.shortenOffers()
	kittest.Eventually(t, "the report to be too old", func() error { return i.tryCreate(phone("gone"), true) })
}

// shortenOffers makes the last report of lbctl expire within a second.
func (i *installation) shortenOffers() {
	i.Helper()
	leases := registryv1.NewLeaseServiceClient(i.dial("registry"))
	resp, err := leases.GetLease(i.Context(), &registryv1.GetLeaseRequest{Namespace: "default", Name: "lbctl-offers"})
	if err != nil {
		i.Fatal(err)
	}
	if got := time.Duration(resp.GetLease().GetSpec().GetLeaseDurationSeconds()) * time.Second; got != 30*time.Second {
		i.Errorf("a report counts for %s", got)
	}
	resp.GetLease().Spec.LeaseDurationSeconds = 1
	if _, err := leases.UpdateLease(i.Context(), &registryv1.UpdateLeaseRequest{Lease: resp.GetLease()}); err != nil {
		i.Fatal(err)
	}
}
