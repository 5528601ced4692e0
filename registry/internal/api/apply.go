package api

import (
	"context"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/object"
)

// Apply implements registryv1.ApplyServiceServer.
type Apply struct {
	registryv1.UnsafeApplyServiceServer
	Writer *admission.Writer
}

// Apply creates or updates an object of any kind.
func (s *Apply) Apply(ctx context.Context, req *registryv1.ApplyRequest) (*registryv1.ApplyResponse, error) {
	o := object.Unwrap(req.GetObject())
	if o == nil {
		return nil, requiredError("ApplyRequest", "object", "there is no object of a known kind in the request")
	}
	if err := checkNamespace(ctx, rules.Of(o), o.GetMetadata().GetNamespace()); err != nil {
		return nil, err
	}
	opts, err := options(ctx, req)
	if err != nil {
		return nil, err
	}
	result, err := s.Writer.Apply(ctx, o, opts)
	if err != nil {
		return nil, err
	}
	outcome := registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	switch {
	case result.Created:
		outcome = registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED
	case result.Changed:
		outcome = registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED
	}
	return &registryv1.ApplyResponse{Object: object.Wrap(result.Object), Outcome: outcome, Warnings: result.Warnings}, nil
}
