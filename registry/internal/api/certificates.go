package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/renewal"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

// Certificates implements registryv1.CertificateServiceServer.
type Certificates struct {
	registryv1.UnsafeCertificateServiceServer
	Issuer *renewal.Issuer
}

// Renew returns a new certificate of the caller.
func (s *Certificates) Renew(ctx context.Context, req *registryv1.RenewRequest) (*registryv1.RenewResponse, error) {
	presented, ok := identity.Presented(ctx)
	if !ok {
		return nil, apierr.FailedPrecondition("a certificate is renewed for a caller that presents it, and this connection has none: give the registry and the caller tls-cert, tls-key and tls-ca")
	}
	chain, err := s.Issuer.Renew(presented, req.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	leaf, err := authority.ParseCert(chain)
	if err != nil {
		return nil, err
	}
	return &registryv1.RenewResponse{CertificateChain: chain, NotAfter: timestamppb.New(leaf.NotAfter)}, nil
}
