package kube

import (
	"maps"

	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
)

// secret reads a Secret. The texts of stringData become data, and replace data with the same names, as
// in Kubernetes.
func (r *reader) secret(from *kubev1.Secret) *corev1.Secret {
	data := maps.Clone(from.Data)
	if data == nil && len(from.StringData) > 0 {
		data = map[string][]byte{}
	}
	for name, text := range from.StringData {
		data[name] = []byte(text)
	}
	return &corev1.Secret{Metadata: r.meta(&from.ObjectMeta), Type: string(from.Type), Data: data}
}

func writeSecret(from *corev1.Secret, to *kubev1.Secret) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	to.Type, to.Data = kubev1.SecretType(from.GetType()), from.GetData()
}
