package daemon

import (
	"context"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
)

// Renewal returns the task that keeps the certificate of a daemon's host renewed, by sign. Without a
// certificate the task only waits for its end.
func Renewal(host app.Host, sign identity.SignFunc) app.Task {
	return app.Task{Name: "renewal", Run: func(ctx context.Context) error {
		if host.Identity == nil {
			<-ctx.Done()
			return nil
		}
		host.Identity.KeepRenewed(ctx, sign)
		return nil
	}}
}

// RenewBy returns a function that asks the registry at the other end of conn for certificates.
func RenewBy(conn grpc.ClientConnInterface) identity.SignFunc {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := registryv1.NewCertificateServiceClient(conn).Renew(ctx, &registryv1.RenewRequest{CertificateRequest: request})
		return answer.GetCertificateChain(), err
	}
}
