package rules

import (
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// warnOfCertificate returns a warning if the certificate in a Secret is not valid now.
func warnOfCertificate(now time.Time, o object.Object) []string {
	secret, _ := o.(*corev1.Secret)
	if secret.GetType() != spec.SecretTypeTLS {
		return nil
	}
	chain, err := spec.ParseCertificates(secret.GetData()[spec.SecretCert])
	if err != nil {
		return nil // validation refuses it
	}
	switch leaf := chain[0]; {
	case now.After(leaf.NotAfter):
		return []string{fmt.Sprintf("the certificate in data[%s] expired on %s", spec.SecretCert, leaf.NotAfter.UTC().Format(time.RFC3339))}
	case now.Before(leaf.NotBefore):
		return []string{fmt.Sprintf("the certificate in data[%s] is valid from %s on", spec.SecretCert, leaf.NotBefore.UTC().Format(time.RFC3339))}
	}
	return nil
}
