package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"google.golang.org/grpc/codes"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/endpointctl/internal/packing"
)

// isTemporary reports whether a failed write may succeed if it is repeated: the registry is away, or the object
// was changed, made or deleted by others in the meantime. Other errors last until somebody changes something.
func isTemporary(err error) bool {
	switch apierr.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.NotFound, codes.AlreadyExists:
		return true
	default:
		return false
	}
}

// makeRemovals makes the removals of a sync that failed, so that a write that the registry refuses holds back
// no removal. The failure of the sync stays the failure of the service.
func (t *task) makeRemovals(ctx context.Context, failure error) {
	if isTemporary(failure) {
		return // the sync is repeated soon, with the removals
	}
	t.objects = t.c.cfg.Index.Read(t.key)
	writes := t.removals()
	if len(writes) == 0 {
		return
	}
	err := t.makeStages(ctx, [][]write{writes})
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		t.c.refusals.add(t.key, refused) // the next sync leaves them out
	}
	level, message := slog.LevelInfo, "only the removals of endpoints are written"
	if err != nil {
		level, message = slog.LevelWarn, "not even the removals of endpoints are written"
	}
	t.c.cfg.Log.Log(ctx, level, message, "service", t.key.String(), "err", err)
}

// removals returns the writes that take endpoints out of the objects that the controller made for the service.
// A service without endpoints from pods or from an Endpoints has none, because its syncs only delete.
func (t *task) removals() []write {
	svc := t.objects.Service
	switch {
	case svc == nil:
		return nil
	case packing.UnmanagedReason(svc) == "":
		verdicts := t.verdicts()
		writes := writesOf(packing.Removals(packing.SlicesFromPods(svc, verdicts, t.c.cfg.MaxPerSlice), slices.Concat(t.objects.Slices, t.objects.Mirrored)))
		if legacy := t.objects.Endpoints; packing.IsManaged(legacy) {
			if smaller := packing.EndpointsRemovals(packing.EndpointsFromPods(svc, verdicts, "", legacy), legacy); smaller != legacy {
				writes = append(writes, write{opUpdate, smaller})
			}
		}
		return writes
	case packing.IsMirrored(svc, t.objects.Endpoints):
		want, _ := packing.SlicesFromEndpoints(t.objects.Endpoints, t.c.refusals.get(t.key))
		return writesOf(packing.Removals(want, t.objects.Mirrored))
	default:
		return nil
	}
}
