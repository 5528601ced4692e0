package access_test

import (
	"strings"
	"testing"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestReads tries the reads of each role that has a limit of its own. A private kind, such as Secret and Token, must be
// readable only for the roles that need it.
func TestReads(t *testing.T) {
	named := func(name string) *corev1.ObjectMeta { return &corev1.ObjectMeta{Name: name} }
	in := func(namespace string) *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Namespace: namespace, Name: "web"}
	}
	objects := map[string]object.Object{
		"service": &corev1.Service{Metadata: in("shop")}, "slice": &corev1.EndpointSlice{Metadata: in("shop")}, "other's service": &corev1.Service{Metadata: in("other")},
		"pod": podOf("shop", "n1", ""), "other's pod": podOf("shop", "n2", ""), "node": &corev1.Node{Metadata: named("n1")}, "other's node": &corev1.Node{Metadata: named("n2")},
		"secret": &corev1.Secret{Metadata: in("shop")}, "certificate": &corev1.Secret{Metadata: in("shop"), Type: spec.SecretTypeTLS},
		"other's secret": &corev1.Secret{Metadata: in("other")}, "token": &corev1.Token{Metadata: named("ci")}, "revocation": &corev1.Revocation{Metadata: named("r")},
	}
	for who, may := range map[string]string{
		"operator":      "service, slice, other's service, pod, other's pod, node, other's node, secret, certificate, other's secret, token, revocation",
		"operator/shop": "service, slice, pod, other's pod, secret, certificate",
		"viewer":        "service, slice, other's service, pod, other's pod, node, other's node, revocation",
		"viewer/shop":   "service, slice, pod, other's pod",
		"nodeagent/n1":  "service, slice, other's service, pod, node, revocation",
		"edge/n1":       "service, slice, other's service, node, other's node, certificate, revocation",
		"kubeapi":       "service, slice, other's service, pod, other's pod, node, other's node, token, revocation",
		"endpointctl":   "service, slice, other's service, pod, other's pod, node, other's node, revocation",
	} {
		_, reads := limitsOf(t, who)
		for name, o := range objects {
			want := strings.Contains(", "+may+", ", ", "+name+", ")
			if got := reads.Allows(o); got != want {
				t.Errorf("%s reads the %s: %v", who, name, got)
			}
		}
	}
}

// TestClaims tries claims, confirmations and releases of addresses. lbctl may touch load-balancer addresses only, in
// slots of its own: otherwise a mistake in it could take the cluster IPs of services.
func TestClaims(t *testing.T) {
	const own, foreign = spec.BalancerSlots + "ipv4", "clusterIPs/0"
	const balancerIP, clusterIP = allocatorv1.Use_USE_LOAD_BALANCER_IP, allocatorv1.Use_USE_CLUSTER_IP
	for _, who := range []string{"lbctl", "registry"} {
		id, err := identity.ParsePath(identity.DefaultTrustDomain, who)
		if err != nil {
			t.Fatal(err)
		}
		ctx := identity.Represent(t.Context(), id)
		for name, c := range map[string]struct {
			err error
			may bool // of lbctl; the registry may do everything
		}{
			"claims an address":              {access.CheckClaim(ctx, balancerIP, own), true},
			"claims in another's slot":       {access.CheckClaim(ctx, balancerIP, foreign), false},
			"claims a cluster IP":            {access.CheckClaim(ctx, clusterIP, foreign), false},
			"claims a cluster IP in its own": {access.CheckClaim(ctx, clusterIP, own), false},
			"settles its slots":              {access.CheckSettlement(ctx, []string{own, own}, 0), true},
			"settles another's slot":         {access.CheckSettlement(ctx, []string{own, foreign}, 0), false},
			"settles all slots":              {access.CheckSettlement(ctx, nil, 0), false},
			"settles values":                 {access.CheckSettlement(ctx, []string{own}, 1), false},
		} {
			if want := c.may || who != "lbctl"; (c.err == nil) != want {
				t.Errorf("%s %s: %v", who, name, c.err)
			}
		}
	}
}

// TestListNamespace checks which namespace a list reads. A caller that is bound to a namespace must not read the others
// by naming none.
func TestListNamespace(t *testing.T) {
	for _, c := range []struct {
		who, asked, want string
		refused          bool
	}{
		{"operator/shop", "", "shop", false}, {"operator/shop", "shop", "shop", false}, {"operator/shop", "other", "", true},
		{"viewer/shop", "", "shop", false}, {"viewer/shop", "other", "", true},
		{"operator", "", "", false}, {"operator", "other", "other", false},
	} {
		id, err := identity.ParsePath(identity.DefaultTrustDomain, c.who)
		if err != nil {
			t.Fatal(err)
		}
		got, err := access.ListNamespace(identity.Represent(t.Context(), id), c.asked)
		if (err != nil) != c.refused || err == nil && got != c.want {
			t.Errorf("%s lists %q and reads %q, %v", c.who, c.asked, got, err)
		}
	}
	if got, err := access.ListNamespace(t.Context(), ""); got != "" || err != nil {
		t.Errorf("without an identity a list reads %q, %v", got, err)
	}
}
