package manifest

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
)

// secret converts a Secret. The texts of stringData become data, and replace it under the same names,
// as in Kubernetes.
func (r *reader) secret(from *kube.Secret) *corev1.Secret {
	for name, text := range from.StringData {
		if from.Data == nil {
			from.Data = map[string][]byte{}
		}
		from.Data[name] = []byte(text)
	}
	from.StringData = nil
	return &corev1.Secret{Metadata: r.meta(from.ObjectMeta), Type: string(from.Type), Data: from.Data}
}

func writeSecret(from *corev1.Secret, to *kube.Secret) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	to.Type, to.Data = kube.SecretType(from.GetType()), from.GetData()
}
