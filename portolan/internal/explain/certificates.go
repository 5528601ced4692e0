package explain

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/balancer"
)

// certificates reports the certificates that edges want for the service and that the registry does not
// have. Files of certificates are on the edges' machines, so only edges can tell about them.
func (c *explainer) certificates(ctx context.Context, step *Step) {
	if balancer.ClassOf(c.service) != balancer.ClassEdge {
		return
	}
	settings, _ := balancer.Parse(c.service)
	refs := settings.Certificates
	if settings.BackendCA != nil {
		refs = append(refs, *settings.BackendCA)
	}
	namespace := c.service.GetMetadata().GetNamespace()
	for _, ref := range refs {
		if ref.Kind == balancer.CertificateFile {
			continue
		}
		_, err := registryv1.NewSecretServiceClient(c.Registry).GetSecret(ctx, &registryv1.GetSecretRequest{Namespace: namespace, Name: ref.Name})
		switch {
		case status.Code(err) == codes.NotFound && ref.Kind == balancer.CertificateSecret:
			step.addLine("The certificate %s: there is none, so that edges do not use it.", ref)
			step.setState(Notice, "store it: portolan secret tls "+ref.Name+" -n "+namespace+" --cert FILE --key FILE")
		case status.Code(err) == codes.NotFound:
			step.addLine("The certificate %s: there is no such Secret, so that edges look for a file of this name; portolan edge status says what they found.", ref)
		case status.Code(err) == codes.PermissionDenied:
			step.addLine("The certificate %s: only operators may read Secrets.", ref)
		case err != nil:
			*step = noAnswer(*step, "registry", err)
		}
	}
}
