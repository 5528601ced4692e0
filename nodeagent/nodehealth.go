package nodeagent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/healthcheck"
)

// goingTaint is on nodes that an autoscaler is about to remove.
const goingTaint = "ToBeDeletedByClusterAutoscaler"

// health returns the state of the node for its health endpoints.
func (a *Agent) health() healthcheck.Node {
	return healthcheck.Node{
		Healthy:  a.syncer.healthy(),
		Eligible: !a.draining.Load() && !leaving(a.view.Self()),
		Updated:  a.syncer.lastSync(),
	}
}

// leaving reports whether a node is being deleted. An unknown node is not.
func leaving(n *corev1.Node) bool {
	return n.GetMetadata().GetDeletionTimestamp() != nil ||
		slices.ContainsFunc(n.GetSpec().GetTaints(), func(t *corev1.Taint) bool { return t.GetKey() == goingTaint })
}

// serveHealth answers load balancers and supervisors until ctx is done.
func (a *Agent) serveHealth(ctx context.Context, lis net.Listener) error {
	handler := healthcheck.NodeHandler(a.plane.Name(), a.health, func(path string, code int) {
		a.metrics.asked.WithLabelValues(path, strconv.Itoa(code)).Inc()
	})
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
