package api

import (
	"context"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/access"
	"portolan.dev/services/envvars"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Discovery implements registryv1.DiscoveryServiceServer.
type Discovery struct {
	registryv1.UnsafeDiscoveryServiceServer
	View     *view.View
	Settings *registryv1.GetSettingsResponse
	// NodePorts returns the ranges of node ports.
	NodePorts func(ctx context.Context) string
}

// RenderEnv renders the environment variables for the present services.
func (s *Discovery) RenderEnv(ctx context.Context, req *registryv1.RenderEnvRequest) (*registryv1.RenderEnvResponse, error) {
	if err := access.CheckNamespace(ctx, req.GetNamespace()); err != nil {
		return nil, err
	}
	selector, err := spec.ParseSelector(req.GetLabelSelector())
	if err != nil {
		return nil, apierr.Invalid("RenderEnvRequest", "", apierr.Violations{{
			Field: "label_selector", Reason: apierr.ReasonInvalid, Message: err.Error(),
		}})
	}
	env := envvars.Render(s.services(req.GetNamespace()), envvars.Options{
		Namespace: req.GetNamespace(), NoServiceLinks: req.EnableServiceLinks != nil && !req.GetEnableServiceLinks(), Selector: selector,
	})
	return &registryv1.RenderEnvResponse{Variables: env.Variables, Lines: env.Lines, Warnings: env.Warnings}, nil
}

// services returns the services that can affect a namespace: the services of the namespace itself
// and of the namespace default.
func (s *Discovery) services(namespace string) []*corev1.Service {
	state := s.View.State()
	namespaces := []string{object.DefaultNamespace}
	if namespace != "" && namespace != object.DefaultNamespace {
		namespaces = append(namespaces, namespace)
	}
	var services []*corev1.Service
	for _, name := range namespaces {
		for item := range state.All("Service", name) {
			if svc, ok := item.Object.(*corev1.Service); ok {
				services = append(services, svc)
			}
		}
	}
	return services
}

// GetSettings returns the settings of the installation.
func (s *Discovery) GetSettings(ctx context.Context, _ *registryv1.GetSettingsRequest) (*registryv1.GetSettingsResponse, error) {
	settings := proto.CloneOf(s.Settings)
	settings.NodePortRange = s.NodePorts(ctx)
	return settings, nil
}
