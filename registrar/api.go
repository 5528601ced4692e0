package registrar

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registrarv1 "portolan.dev/api/registrar/v1"
	"portolan.dev/services/object"

	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/internal/reconcile"
	"portolan.dev/registrar/source"
)

// api implements the registrar's RegistrarService.
type api struct {
	registrarv1.UnsafeRegistrarServiceServer
	daemon *Daemon
}

var _ registrarv1.RegistrarServiceServer = (*api)(nil)

// GetStatus implements RegistrarService.
func (a *api) GetStatus(context.Context, *registrarv1.GetStatusRequest) (*registrarv1.GetStatusResponse, error) {
	d := a.daemon
	revision, synced := d.view.Revision()
	res := &registrarv1.GetStatusResponse{
		Node: d.node, ViewRevision: revision, Synced: synced && d.follower.Synced(), Warnings: d.host.Health.Warnings(), Folder: d.folder.status(),
	}
	for _, one := range d.reconciler.Status() {
		res.Sources = append(res.Sources, sourceStatus(one))
	}
	return res, nil
}

func sourceStatus(s reconcile.Source) *registrarv1.Source {
	out := &registrarv1.Source{Name: s.Name, Connected: s.Connected, LastReport: stamp(s.Reported), Problems: problems(s.Problems)}
	if s.Err != nil {
		out.Error = s.Err.Error()
	}
	for _, w := range s.Workloads {
		out.Workloads = append(out.Workloads, workloadStatus(w))
	}
	return out
}

func workloadStatus(w reconcile.Workload) *registrarv1.Workload {
	out := &registrarv1.Workload{
		Id: w.ID, Name: w.Name, Namespace: w.PodName.Namespace, Service: w.Service, Addresses: object.PodIPs(w.Pod),
		Ready: object.IsReady(w.Pod.GetStatus().GetConditions()), Terminating: w.Terminating, Problems: problems(w.Problems),
	}
	if w.Pod != nil {
		out.Pod = w.PodName.Name
	}
	for _, p := range w.Ports {
		out.Ports = append(out.Ports, objects.PortText(p))
	}
	return out
}

func problems(all []source.Problem) []*registrarv1.Problem {
	var out []*registrarv1.Problem
	for _, p := range all {
		out = append(out, &registrarv1.Problem{Object: p.Object, Field: p.Field, Reason: p.Reason, Message: p.Message})
	}
	return out
}

// stamp returns a time as a message, or nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
