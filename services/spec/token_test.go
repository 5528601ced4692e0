package spec_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func TestValidateToken(t *testing.T) {
	hash := make([]byte, 32)
	for _, test := range []struct {
		spec *corev1.TokenSpec
		want []string
	}{
		{&corev1.TokenSpec{Identity: "operator", Sha256: hash, Expires: timestamppb.New(day)}, nil},
		{&corev1.TokenSpec{Identity: "viewer/shop", Sha256: hash}, nil},
		{&corev1.TokenSpec{Identity: "workload/n1", Sha256: hash}, nil},
		{&corev1.TokenSpec{Identity: "workload/n1/shop", Sha256: hash}, nil},
		{nil, []string{"spec.identity REQUIRED", "spec.sha256 REQUIRED"}},
		{&corev1.TokenSpec{Identity: "workload", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "registry", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "kubeapi", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "nodeagent/n1", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "operator/", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "operator/a/b", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "king", Sha256: hash}, []string{"spec.identity INVALID"}},
		{&corev1.TokenSpec{Identity: "viewer", Sha256: hash[:31]}, []string{"spec.sha256 INVALID"}},
		{&corev1.TokenSpec{Identity: "viewer", Sha256: append(hash, 0)}, []string{"spec.sha256 INVALID"}},
		{&corev1.TokenSpec{Identity: "viewer", Sha256: hash, Expires: &timestamppb.Timestamp{Nanos: -1}}, []string{"spec.expires INVALID"}},
	} {
		expect(t, admit(&corev1.Token{Metadata: &corev1.ObjectMeta{Name: "ci"}, Spec: test.spec}, dualStack, spec.Rules{}), test.want...)
	}
	expect(t, admit(&corev1.Token{Metadata: &corev1.ObjectMeta{Name: "a/b"}, Spec: &corev1.TokenSpec{Identity: "viewer", Sha256: hash}}, dualStack, spec.Rules{}), "metadata.name INVALID")
}

func TestTokensDoNotChange(t *testing.T) {
	old, _ := example("Token").(*corev1.Token)
	for name, change := range map[string]func(*corev1.TokenSpec){
		"identity": func(s *corev1.TokenSpec) { s.Identity = "operator" },
		"hash":     func(s *corev1.TokenSpec) { s.Sha256 = append([]byte{1}, s.GetSha256()[1:]...) },
		"end":      func(s *corev1.TokenSpec) { s.Expires = timestamppb.New(day) },
		"creator":  func(s *corev1.TokenSpec) { s.CreatedBy = "operator" },
	} {
		updated, _ := example("Token").(*corev1.Token)
		change(updated.Spec)
		t.Run(name, func(t *testing.T) { expect(t, admitUpdate(updated, old, dualStack), "spec FORBIDDEN") })
	}
	labelled, _ := example("Token").(*corev1.Token)
	labelled.Metadata.Labels = map[string]string{"a": "b"}
	expect(t, admitUpdate(labelled, old, dualStack))
}
