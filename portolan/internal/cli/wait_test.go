package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/kittest"
)

// slowNode is a registry with one node. The node has reached a revision more at each request for the agents,
// and the third request fails.
type slowNode struct {
	registryv1.UnimplementedNodeServiceServer
	registryv1.UnimplementedAgentServiceServer
	looks uint64
}

func (s *slowNode) ListNodes(context.Context, *registryv1.ListNodesRequest) (*registryv1.ListNodesResponse, error) {
	return &registryv1.ListNodesResponse{Nodes: []*corev1.Node{{Metadata: &corev1.ObjectMeta{Name: "n1"}}}}, nil
}

func (s *slowNode) ListAgents(context.Context, *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	if s.looks++; s.looks == 3 {
		return nil, status.Error(codes.Unavailable, "away")
	}
	return &registryv1.ListAgentsResponse{Agents: []*registryv1.Agent{
		{Alive: true, Heartbeat: &nodeagentv1.Heartbeat{Node: "n1", AppliedRevision: s.looks, Synced: true}},
	}}, nil
}

// TestWaitShowsProgress checks that progress is one line that changes and is finally removed, and
// that none is printed without a terminal. It checks that wait waits for a registry that does not
// answer, unless its time is up.
func TestWaitShowsProgress(t *testing.T) {
	look := func(live bool, screen *bytes.Buffer) *waiter {
		conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
			node := &slowNode{}
			registryv1.RegisterNodeServiceServer(s, node)
			registryv1.RegisterAgentServiceServer(s, node)
		})
		return &waiter{registry: client.New(conn), endpoints: rollout.Endpoints{State: rollout.Programmed}, query: rollout.Query{Namespace: "default", Name: "web", Revision: 5}, screen: screen, live: live}
	}
	for _, live := range []bool{true, false} {
		var screen bytes.Buffer
		progress, err := look(live, &screen).wait(t.Context(), -1)
		if err != nil || !progress.Complete() {
			t.Errorf("%s: %v", progress, err)
		}
		lines := strings.Split(screen.String(), "\r\x1b[K")
		if !live {
			if screen.Len() > 0 {
				t.Errorf("%q where nobody watches", screen.String())
			}
			continue
		}
		if len(lines) != 7 || lines[1] != "programmed on 0 of 1 nodes" || lines[3] != "the registry does not answer" || lines[5] != "programmed on 1 of 1 nodes" || lines[6] != "" {
			t.Errorf("%q", lines)
		}
	}
	w := look(false, &bytes.Buffer{})
	for n, want := range []codes.Code{codes.OK, codes.OK, codes.Unavailable} {
		if progress, err := w.wait(t.Context(), 0); status.Code(err) != want || progress.Complete() {
			t.Errorf("look %d: %s, %v, want %s", n+1, progress, err, want)
		}
	}
}

// slowController is an endpoint controller and a registry with one service. The controller has written the slices at the
// third request, and the registry has a later revision then.
type slowController struct {
	endpointsv1.UnimplementedEndpointControllerServiceServer
	registryv1.UnimplementedServiceServiceServer
	registryv1.UnimplementedEndpointSliceServiceServer
	slowNode
	asked int
}

func (s *slowController) ExplainService(context.Context, *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	s.asked++
	answer := &endpointsv1.ExplainServiceResponse{SyncedHere: true, Pending: s.asked < 3}
	if s.asked == 2 {
		answer.Failure = &endpointsv1.SyncFailure{Since: timestamppb.New(time.Unix(0, 0)), Message: "ports: has 101 entries"}
	}
	return answer, nil
}

func (s *slowController) GetService(context.Context, *registryv1.GetServiceRequest) (*registryv1.GetServiceResponse, error) {
	return &registryv1.GetServiceResponse{Service: &corev1.Service{Metadata: &corev1.ObjectMeta{ResourceVersion: 1}}}, nil
}

func (s *slowController) ListEndpointSlices(context.Context, *registryv1.ListEndpointSlicesRequest) (*registryv1.ListEndpointSlicesResponse, error) {
	return &registryv1.ListEndpointSlicesResponse{Revision: uint64(s.asked)}, nil
}

// TestWaitIsNotOverBeforeTheSlicesAreWritten checks that wait waits for the endpoint controller, shows why, and then waits for
// nodes with the revision at which the slices are written.
func TestWaitIsNotOverBeforeTheSlicesAreWritten(t *testing.T) {
	fake := &slowController{}
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		endpointsv1.RegisterEndpointControllerServiceServer(s, fake)
		registryv1.RegisterServiceServiceServer(s, fake)
		registryv1.RegisterEndpointSliceServiceServer(s, fake)
		registryv1.RegisterNodeServiceServer(s, &fake.slowNode)
		registryv1.RegisterAgentServiceServer(s, &fake.slowNode)
	})
	var screen bytes.Buffer
	w := &waiter{registry: client.New(conn), controller: conn, query: rollout.Query{Namespace: "default", Name: "web"}, screen: &screen, live: true}
	if progress, err := w.wait(t.Context(), 0); err != nil || progress.Complete() || w.endpoints.State != rollout.Pending {
		t.Errorf("at first: %s, %v, endpoints %+v", progress, err, w.endpoints)
	}
	progress, err := w.wait(t.Context(), -1)
	if err != nil || !progress.Complete() || progress.Revision != 3 || w.endpoints.State != rollout.Programmed {
		t.Errorf("%s at revision %d, %v, endpoints %+v", progress, progress.Revision, err, w.endpoints)
	}
	for _, want := range []string{"has not written them yet", "cannot write the endpoints: ports: has 101 entries", "programmed on 0 of 1 nodes", "programmed on 1 of 1 nodes"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("%q is not shown: %q", want, screen.String())
		}
	}
}
