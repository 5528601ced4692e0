package edge

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	edgev1 "portolan.dev/api/edge/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/edge/internal/view"
)

// maxStatus is the largest answer of GetStatus, in bytes. It is below the limit of clients.
const maxStatus = rpc.DefaultMaxMessage - 64<<10

// api implements the edge's EdgeService.
type api struct {
	edgev1.UnsafeEdgeServiceServer
	daemon *Daemon
}

var _ edgev1.EdgeServiceServer = (*api)(nil)

// GetStatus implements EdgeService.
func (a *api) GetStatus(_ context.Context, req *edgev1.GetStatusRequest) (*edgev1.GetStatusResponse, error) {
	if req.GetName() != "" && req.GetNamespace() == "" {
		return nil, apierr.FailedPrecondition("a name needs a namespace: set namespace, or leave out the name")
	}
	d := a.daemon
	age := d.home.Age(d.follower)
	res := &edgev1.GetStatusResponse{
		Node: d.name, Zone: view.Zone(d.view.Self()), ViewRevision: d.view.Revision(), Synced: d.follower.Synced(), ViewAgeSeconds: age.Seconds(), ViewAge: durationpb.New(age),
		Stopping: d.stopping.Load(), AgentError: d.local.Disconnected(), Warnings: d.host.Health.Warnings(),
	}
	ports := d.server.Status(func(namespace, name string) bool {
		return (req.GetNamespace() == "" || namespace == req.GetNamespace()) && (req.GetName() == "" || name == req.GetName())
	})
	size := proto.Size(res)
	for i, port := range ports {
		if size += proto.Size(port) + 8; size > maxStatus {
			res.MorePorts = uint32(len(ports) - i) // #nosec G115 -- fewer than file descriptors
			break
		}
		res.Ports = append(res.Ports, port)
	}
	return res, nil
}
