package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Client is a client of a registry.
type Client struct {
	conn grpc.ClientConnInterface
}

// New returns a client on a connection. The caller keeps the connection and closes it.
func New(conn grpc.ClientConnInterface) *Client { return &Client{conn: conn} }

// Conn returns the connection, for the generated stubs of services that do not belong to a kind.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Get returns one object.
func (c *Client) Get(ctx context.Context, kind *kinds.Kind, namespace, name string) (object.Object, error) {
	return Object(ctx, c.conn, kind, kinds.Get, map[string]any{"namespace": namespace, "name": name})
}

// Deletion selects an object to be deleted, and the way of its deletion.
type Deletion struct {
	Key     object.Key
	UID     string // only the object with this UID; empty: any
	Version uint64 // only this version of the object; 0: any
	Grace   *int64 // seconds until a pod is removed; nil: its own grace period
	DryRun  bool
}

// Delete removes one object, or marks it as deleted while finalizers must act or its grace period
// lasts. It returns the object's last version.
func (c *Client) Delete(ctx context.Context, d Deletion) (object.Object, error) {
	kind, _ := kinds.Named(d.Key.Kind)
	fields := map[string]any{"namespace": d.Key.Namespace, "name": d.Key.Name, "uid": d.UID, "resource_version": d.Version, "dry_run": d.DryRun}
	if d.Grace != nil {
		fields["grace_period_seconds"] = *d.Grace
	}
	return Object(ctx, c.conn, kind, kinds.Delete, fields)
}

// Apply creates or updates an object.
func (c *Client) Apply(ctx context.Context, o object.Object, dryRun bool) (*registryv1.ApplyResponse, error) {
	return registryv1.NewApplyServiceClient(c.conn).Apply(ctx, &registryv1.ApplyRequest{Object: object.Wrap(o), DryRun: dryRun})
}

// Applied is the result of one of several objects that were applied.
type Applied struct {
	Outcome  registryv1.ApplyOutcome
	Warnings []string
	Err      error // error if the object was not applied; the other fields are empty then
}

// ApplyMany creates or updates at most 1000 objects by one call. It returns a result for each object, in
// their order. It returns an error if the call as a whole fails.
func (c *Client) ApplyMany(ctx context.Context, objects []object.Object, dryRun bool) ([]Applied, error) {
	request := &registryv1.WriteRequest{Operations: make([]*registryv1.WriteOperation, len(objects)), DryRun: dryRun, Brief: true}
	for i, o := range objects {
		request.Operations[i] = &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Apply{Apply: object.Wrap(o)}}
	}
	answer, err := registryv1.NewBulkServiceClient(c.conn).Write(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(answer.GetResults()) != len(objects) {
		return nil, fmt.Errorf("the registry answered %d objects with %d results", len(objects), len(answer.GetResults()))
	}
	applied := make([]Applied, len(objects))
	for i, result := range answer.GetResults() {
		failure := result.GetError()
		applied[i] = Applied{Outcome: appliedOutcome(result.GetOutcome()), Warnings: result.GetWarnings(), Err: apierr.FromFields(failure.GetCode(), failure.GetMessage(), failure.GetDetails())}
	}
	return applied, nil
}

// appliedOutcome converts the outcome of an operation to the outcome of ApplyService.
func appliedOutcome(outcome registryv1.WriteOutcome) registryv1.ApplyOutcome {
	switch outcome {
	case registryv1.WriteOutcome_WRITE_OUTCOME_FAILED:
		return registryv1.ApplyOutcome_APPLY_OUTCOME_UNSPECIFIED
	case registryv1.WriteOutcome_WRITE_OUTCOME_CREATED:
		return registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED
	case registryv1.WriteOutcome_WRITE_OUTCOME_UNCHANGED:
		return registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	default:
		return registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED
	}
}

// Events returns the events of an object, oldest first.
func (c *Client) Events(ctx context.Context, key object.Key) ([]*corev1.Event, error) {
	namespace := key.Namespace
	if namespace == "" {
		namespace = object.DefaultNamespace
	}
	return ListOf[*corev1.Event](ctx, c, Query{Namespace: namespace, Fields: fmt.Sprintf("regarding.kind=%s,regarding.name=%s", key.Kind, key.Name)})
}
