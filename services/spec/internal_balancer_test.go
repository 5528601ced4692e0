package spec_test

import (
	"testing"

	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestInternalBalancer checks each annotation of the ledger with the values that the manifests of cloud
// providers have, and values that ask for nothing.
func TestInternalBalancer(t *testing.T) {
	const beta = "service.beta.kubernetes.io/"
	for _, test := range []struct {
		annotation, value string
		want              bool
	}{
		{object.AnnotationBalancerInternal, "true", true},
		{object.AnnotationBalancerInternal, "false", false},
		{object.AnnotationBalancerInternal, "", false},
		{"cloud.google.com/load-balancer-type", "Internal", true},
		{"cloud.google.com/load-balancer-type", "internal", true},
		{"cloud.google.com/load-balancer-type", "External", false},
		{"networking.gke.io/load-balancer-type", "Internal", true},
		{beta + "aws-load-balancer-internal", "0.0.0.0/0", true},
		{beta + "aws-load-balancer-internal", "true", true},
		{beta + "aws-load-balancer-internal", "False", false},
		{beta + "aws-load-balancer-type", "nlb", false},
		{beta + "azure-load-balancer-internal", "true", true},
		{beta + "openstack-internal-load-balancer", "true", true},
		{beta + "cce-load-balancer-internal-vpc", "true", true},
		{"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", "private", true},
		{"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", "public", false},
		{"service.kubernetes.io/qcloud-loadbalancer-internal-subnetid", "subnet-1", true},
		{beta + "alibaba-cloud-loadbalancer-address-type", "intranet", true},
		{beta + "alibaba-cloud-loadbalancer-address-type", "internet", false},
		{beta + "oci-load-balancer-internal", "true", true},
	} {
		want := ""
		if test.want {
			want = test.annotation
		}
		if got := spec.InternalBalancer(web(annotate(test.annotation, test.value))); got != want {
			t.Errorf("%s: %q: got %q, want %q", test.annotation, test.value, got, want)
		}
	}
	if got := spec.InternalBalancer(web(annotate(beta+"aws-load-balancer-internal", "true"), annotate(object.AnnotationBalancerInternal, "false"))); got != "" {
		t.Errorf("Portolan's own annotation says no, and %s decides", got)
	}
	if got := spec.InternalBalancer(web()); got != "" {
		t.Errorf("without annotations %s decides", got)
	}
}
