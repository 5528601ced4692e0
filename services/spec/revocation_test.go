package spec_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func TestValidateRevocation(t *testing.T) {
	at := timestamppb.New(day)
	for _, test := range []struct {
		spec *corev1.RevocationSpec
		want []string
	}{
		{&corev1.RevocationSpec{Identity: "operator", IssuedBefore: at, Expires: at}, nil},
		{&corev1.RevocationSpec{Identity: "workload/n1/default", Reason: strings.Repeat("x", 256)}, nil},
		{&corev1.RevocationSpec{Serial: "00:AF:12", Expires: at}, nil},
		{&corev1.RevocationSpec{}, []string{"spec.identity REQUIRED"}},
		{&corev1.RevocationSpec{Serial: "00"}, []string{"spec.identity REQUIRED"}},
		{&corev1.RevocationSpec{Identity: "operator", Serial: "1"}, []string{"spec.serial FORBIDDEN"}},
		{&corev1.RevocationSpec{Identity: "nodeagent"}, []string{"spec.identity INVALID"}},
		{&corev1.RevocationSpec{Identity: "king"}, []string{"spec.identity INVALID"}},
		{&corev1.RevocationSpec{Serial: "xyz"}, []string{"spec.serial INVALID"}},
		{&corev1.RevocationSpec{Serial: strings.Repeat("a", 41)}, []string{"spec.serial INVALID"}},
		{&corev1.RevocationSpec{Serial: "1", IssuedBefore: at}, []string{"spec.issuedBefore FORBIDDEN"}},
		{&corev1.RevocationSpec{Identity: "operator", Reason: strings.Repeat("x", 257)}, []string{"spec.reason TOO_LONG"}},
		{&corev1.RevocationSpec{Identity: "operator", Expires: &timestamppb.Timestamp{Nanos: -1}}, []string{"spec.expires INVALID"}},
	} {
		r := &corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "r"}, Spec: test.spec}
		expect(t, admit(r, dualStack, spec.Rules{}), test.want...)
	}
}

func TestRevocationsDoNotChange(t *testing.T) {
	old, _ := example("Revocation").(*corev1.Revocation)
	for name, change := range map[string]func(*corev1.RevocationSpec){
		"reason": func(s *corev1.RevocationSpec) { s.Reason = "another" },
		"time":   func(s *corev1.RevocationSpec) { s.IssuedBefore = timestamppb.New(day) },
	} {
		updated, _ := example("Revocation").(*corev1.Revocation)
		change(updated.Spec)
		t.Run(name, func(t *testing.T) { expect(t, admitUpdate(updated, old, dualStack), "spec FORBIDDEN") })
	}
}

func TestNamesOfRevocations(t *testing.T) {
	for what, want := range map[string]string{
		"nodeagent/n1.example": "nodeagent-n1.example-", "workload/N_1/shop": "workload-n-1-shop-", "serial-ab": "serial-ab-", "nodeagent/n1-": "nodeagent-n1-",
	} {
		got := spec.IdentityPrefix(what)
		if got != want || spec.DNSSubdomain(got+"x") != "" {
			t.Errorf("%s: %q, want %q; %s", what, got, want, spec.DNSSubdomain(got+"x"))
		}
	}
}
