package api

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
)

// MaxOperations is the largest number of operations of a bulk call. The store commits as many
// together.
const MaxOperations = 1000

// Bulk implements registryv1.BulkServiceServer. Every check of a method of a kind is made for each
// operation, by the same functions. Only the rates of node agents and workloads are missing, because
// these may not call it.
type Bulk struct {
	registryv1.UnsafeBulkServiceServer
	writer     *admission.Writer
	log        *slog.Logger
	operations *prometheus.CounterVec // by code
}

// NewBulk returns a server of bulk calls.
func NewBulk(writer *admission.Writer, log *slog.Logger, metrics prometheus.Registerer) *Bulk {
	s := &Bulk{writer: writer, log: log, operations: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_registry_bulk_operations_total",
		Help: "Operations of bulk calls, by the status code that each had by itself.",
	}, []string{"code"})}
	metrics.MustRegister(s.operations)
	return s
}

// actions maps the verbs of operations to actions of the writer.
var actions = map[kinds.Verb]admission.Action{
	kinds.Create: admission.Create, kinds.Update: admission.Update, kinds.UpdateStatus: admission.UpdateStatus, kinds.Delete: admission.Delete,
	"": admission.Apply,
}

// Write makes many writes.
func (s *Bulk) Write(ctx context.Context, req *registryv1.WriteRequest) (*registryv1.WriteResponse, error) {
	if n := len(req.GetOperations()); n == 0 || n > MaxOperations {
		return nil, apierr.Invalid("WriteRequest", "", apierr.Violations{{
			Field: "operations", Reason: apierr.ReasonInvalid, Message: fmt.Sprintf("%d operations: there must be 1 to %d", n, MaxOperations),
		}})
	}
	opts, err := options(ctx, req)
	if err != nil {
		return nil, err
	}
	outcomes := make([]admission.Outcome, len(req.GetOperations()))
	writes, places := make([]admission.Write, 0, len(outcomes)), make([]int, 0, len(outcomes))
	for i, operation := range req.GetOperations() {
		write, err := admit(ctx, operation)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		writes, places = append(writes, write), append(places, i)
	}
	for n, outcome := range s.writer.WriteMany(ctx, writes, opts) {
		outcomes[places[n]] = outcome
	}
	return s.answer(ctx, req, outcomes), nil
}

// answer returns the answer to a call, and counts its operations.
func (s *Bulk) answer(ctx context.Context, req *registryv1.WriteRequest, outcomes []admission.Outcome) *registryv1.WriteResponse {
	results := &results{brief: req.GetBrief()}
	counts := map[codes.Code]int{}
	for i, outcome := range outcomes {
		code := codes.OK
		if outcome.Err != nil {
			st := apierr.ToStatus(translate(outcome.Err))
			code = st.Code()
			results.addFailure(st)
		} else {
			results.add(req.GetOperations()[i].GetDelete() != nil, outcome.Result)
		}
		counts[code]++
		if code == codes.Internal || code == codes.Unknown { // other errors are for the client
			s.log.ErrorContext(ctx, "operation of a bulk call", "method", kinds.OperationOf(req.GetOperations()[i]).Method(), "err", outcome.Err)
		}
	}
	for code, n := range counts {
		s.operations.WithLabelValues(code.String()).Add(float64(n))
	}
	return &registryv1.WriteResponse{Results: results.all}
}

// admit returns the write of an operation, if it is well formed and the caller may make it.
func admit(ctx context.Context, operation *registryv1.WriteOperation) (admission.Write, error) {
	target := kinds.OperationOf(operation)
	write := admission.Write{Action: actions[target.Verb], Key: target.Key, Object: target.Object}
	if err := checkOperation(target); err != nil {
		return write, err
	}
	if err := access.CheckOperation(ctx, target); err != nil {
		return write, err
	}
	row := rules.Named(target.Kind.Name)
	if err := checkNamespace(ctx, row, target.Key.Namespace); err != nil {
		return write, err
	}
	deletion := operation.GetDelete()
	if deletion == nil {
		return write, nil
	}
	write.Deletion = admission.Deletion{UID: deletion.GetUid(), Revision: deletion.GetResourceVersion(), Grace: deletion.GracePeriodSeconds}
	return write, checkDeletion(row, deletion)
}

// checkOperation returns an error for an operation that no method could make.
func checkOperation(target kinds.Operation) error {
	switch {
	case target.Kind == nil && target.Verb == kinds.Delete:
		return requiredError("WriteOperation", "delete.kind", "there is no known kind in the operation")
	case target.Kind == nil:
		return requiredError("WriteOperation", "write", "there is no object of a known kind in the operation")
	case target.Method() == "":
		return apierr.Invalid(target.Kind.Name, target.Key.Path(), apierr.Violations{{
			Field: "status", Reason: apierr.ReasonNotSupported, Message: fmt.Sprintf("a %s has no status", target.Kind.Name),
		}})
	case target.Verb == kinds.Delete && target.Key.Name == "":
		return requiredError(target.Kind.Name, "name", "says which object is meant")
	}
	return nil
}

// checkDeletion checks the grace period of a deletion.
func checkDeletion(row *rules.Kind, deletion *registryv1.DeleteOperation) error {
	grace := deletion.GracePeriodSeconds
	switch {
	case grace == nil:
		return nil
	case row.Grace == nil:
		return apierr.Invalid(row.Name, deletion.GetName(), apierr.Violations{{
			Field: "grace_period_seconds", Reason: apierr.ReasonNotSupported, Message: fmt.Sprintf("a %s has no grace period", row.Name),
		}})
	}
	return checkGrace(row, *grace)
}
