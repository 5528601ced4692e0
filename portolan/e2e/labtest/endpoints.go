package labtest

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Endpoints returns the endpoints of a service, each as "127.0.0.2:8000 ready", sorted. The state is ready,
// not ready or terminating.
func Endpoints(ctx context.Context, registry grpc.ClientConnInterface, namespace, service string) ([]string, error) {
	res, err := registryv1.NewEndpointSliceServiceClient(registry).ListEndpointSlices(ctx, &registryv1.ListEndpointSlicesRequest{
		Namespace: namespace, LabelSelector: object.LabelServiceName + "=" + service,
	})
	var out []string
	for _, slice := range res.GetEndpointSlices() {
		for _, e := range slice.GetEndpoints() {
			state := "not ready"
			switch conditions := e.GetConditions(); {
			case conditions.GetTerminating():
				state = "terminating"
			case conditions.GetReady():
				state = "ready"
			}
			for _, p := range slice.GetPorts() {
				for _, address := range e.GetAddresses() {
					out = append(out, fmt.Sprintf("%s:%d %s", address, p.GetPort(), state))
				}
			}
		}
	}
	slices.Sort(out)
	return out, err
}
