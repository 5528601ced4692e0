package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
)

// Values of the label op, and operations of writes.
const (
	opCreate = "create"
	opUpdate = "update"
	opDelete = "delete"
)

// write is one write of an object.
type write struct {
	op string
	// object is the whole object. Of an update and a deletion it has the version on which the write
	// is based. Of a create or update it belongs to the write, which sets its identity as stored.
	object object.Object
}

// operation returns the write as an operation of a bulk call.
func (w write) operation() *registryv1.WriteOperation {
	switch w.op {
	case opCreate:
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Create{Create: object.Wrap(w.object)}}
	case opUpdate:
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Update{Update: object.Wrap(w.object)}}
	}
	meta := w.object.GetMetadata()
	return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{
		Kind: object.KindOf(w.object), Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	}}}
}

// writesOf returns the writes of a stage.
func writesOf(stage packing.Stage) []write {
	var all []write
	for _, s := range stage.Create {
		nameSlice(s)
		all = append(all, write{opCreate, s})
	}
	for _, s := range stage.Update {
		all = append(all, write{opUpdate, s})
	}
	return append(all, deletionsOf(stage.Delete)...)
}

func deletionsOf(slices []*corev1.EndpointSlice) []write {
	all := make([]write, len(slices))
	for i, s := range slices {
		all[i] = write{opDelete, s}
	}
	return all
}

// nameSlice gives a new slice a name. A write without a name would not share the commit of its call,
// because the registry generates such names one by one. If the name is taken, the write fails, and the
// next sync makes another name.
func nameSlice(s *corev1.EndpointSlice) {
	s.Metadata.Name = s.GetMetadata().GetGenerateName() + strings.ToLower(rand.Text()[:10])
}

// makeStages makes the writes of one stage after the other. If a write of a slice fails, the later stages are
// not begun. No stage depends on an Endpoints. The error has the refused endpoints of all writes.
func (t *task) makeStages(ctx context.Context, stages [][]write) error {
	var errs []error
	for _, writes := range stages {
		failed := false
		outcomes := t.writer.makeWrites(ctx, writes)
		for i, one := range writes {
			if err := t.record(one, outcomes[i]); err != nil {
				errs = append(errs, err)
				failed = failed || object.KindOf(one.object) == "EndpointSlice"
			}
		}
		if failed {
			break
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return joinWriteErrors(errs)
}

// record records the outcome of a write in the index and in the metrics. A deletion of an object that
// does not exist succeeds.
func (t *task) record(one write, outcome batch.Outcome[stored]) error {
	if err := outcome.Err; err != nil {
		return t.recordFailure(one, err)
	}
	t.writes++
	t.c.metrics.writes.WithLabelValues(object.KindOf(one.object), one.op).Inc()
	if one.op == opDelete || outcome.Value.removed {
		t.c.cfg.Index.RecordDeletion(one.object)
		return nil
	}
	meta := one.object.GetMetadata()
	meta.Name, meta.Uid, meta.ResourceVersion = outcome.Value.name, outcome.Value.uid, outcome.Value.revision
	t.c.cfg.Index.RecordWrite(one.object)
	if object.KindOf(one.object) == "Endpoints" {
		t.c.legacy.written(t.key)
	}
	return nil
}

// recordFailure returns the error of a write, wrapped with the operation. If the registry does not
// find the object, the index drops it, so that the next sync does not use it.
func (t *task) recordFailure(one write, err error) error {
	if one.op != opCreate && apierr.Code(err) == codes.NotFound {
		t.c.cfg.Index.RecordDeletion(one.object)
		if one.op == opDelete {
			return nil
		}
	}
	err = fmt.Errorf("%s %s %s: %w", one.op, object.KindOf(one.object), one.object.GetMetadata().GetName(), err)
	if one.op == opDelete {
		return err
	}
	return asRefusal(one.object, err)
}

// joinWriteErrors returns one error for several failed writes. It is a refusal with the endpoints of
// all refusals, if there are any, because the writes are repeated without these endpoints. Otherwise
// it is the first error.
func joinWriteErrors(errs []error) error {
	var joined *refusal
	for _, err := range errs {
		refused := (*refusal)(nil)
		switch {
		case !errors.As(err, &refused):
		case joined == nil:
			joined = &refusal{error: refused.error, endpoints: refused.endpoints}
		default:
			joined.endpoints = append(joined.endpoints, refused.endpoints...)
		}
	}
	if joined != nil {
		return joined
	}
	return errs[0]
}
