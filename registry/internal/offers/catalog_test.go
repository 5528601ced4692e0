package offers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const class = "example.com/metal"

// change returns a change of a Lease in which lbctl reports the protocols of the class.
func change(t *testing.T, name string, seconds int32, protocols ...string) *view.Change {
	t.Helper()
	lease := &corev1.Lease{
		Metadata: &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: name},
		Spec:     &corev1.LeaseSpec{HolderIdentity: "cp1", LeaseDurationSeconds: seconds},
	}
	if err := spec.SetBalancerOffers(lease, spec.BalancerOffers{class: {Protocols: protocols}}); err != nil {
		t.Fatal(err)
	}
	item := &view.Item{Key: object.KeyOf(lease), Object: lease}
	return &view.Change{New: item, Last: item}
}

// want checks the protocols of the class; without any, the class is unknown.
func want(t *testing.T, c *Catalog, when string, protocols ...string) {
	t.Helper()
	got, known := c.Of(class)
	if known != (len(protocols) > 0) || !slices.Equal(got.Protocols, protocols) {
		t.Errorf("%s: %v, known: %t; want %v", when, got.Protocols, known, protocols)
	}
}

func TestReportsCountFromTheirChangeForTheDurationOfTheLease(t *testing.T) {
	c := NewCatalog()
	want(t, c, "before a report")
	c.Observe([]*view.Change{change(t, "lbctl-offers", 60, "TCP")})
	want(t, c, "a report", "TCP")
	c.Observe([]*view.Change{change(t, "lbctl-east-offers", 60, "SCTP")})
	want(t, c, "two lbctls", "SCTP", "TCP")
	c.Observe([]*view.Change{change(t, "endpointctl", 60, "UDP"), {Last: &view.Item{Object: &corev1.Node{}}}})
	want(t, c, "objects of others", "SCTP", "TCP")

	deleted := change(t, "lbctl-east-offers", 60, "SCTP")
	deleted.New = nil
	c.Observe([]*view.Change{deleted})
	want(t, c, "a deletion", "TCP")
	released := change(t, "lbctl-offers", 60, "TCP")
	lease, _ := released.New.Object.(*corev1.Lease)
	lease.Spec.HolderIdentity = ""
	c.Observe([]*view.Change{released})
	want(t, c, "a Lease without a holder")

	c.Observe([]*view.Change{change(t, "lbctl-offers", 60, "TCP")})
	c.Forget()
	want(t, c, "a view that was read anew")
	c.Observe([]*view.Change{change(t, "lbctl-offers", 1, "TCP")})
	want(t, c, "a short report", "TCP")
	kittest.Eventually(t, "the end of the report", func() error {
		if offer, known := c.Of(class); known {
			return fmt.Errorf("the class still offers %v", offer.Protocols)
		}
		return nil
	})
}
