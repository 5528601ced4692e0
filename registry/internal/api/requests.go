package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/store"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// The methods that the generated requests of all kinds have in common. Requests of kinds without
// namespaces lack GetNamespace. The other methods are checked at start.
type (
	namespaced interface{ GetNamespace() string }
	dryRun     interface{ GetDryRun() bool }
	getRequest interface {
		GetName() string
		GetMinRevision() uint64
	}
	deleteRequest interface {
		dryRun
		GetName() string
		GetUid() string
		GetResourceVersion() uint64
	}
	selecting interface {
		GetLabelSelector() string
		GetFieldSelector() string
	}
	listRequest interface {
		selecting
		GetPageSize() int32
		GetPageToken() string
		GetMinRevision() uint64
	}
	watchRequest interface {
		selecting
		GetFromRevision() uint64
	}
)

// namespaceOf returns the namespace of a request, which may be empty.
func namespaceOf(req any) string {
	if n, ok := req.(namespaced); ok {
		return n.GetNamespace()
	}
	return ""
}

// keyOf returns the key of the object that a request names. An empty namespace means "default". It
// returns an error if the caller is bound to another namespace.
func keyOf(ctx context.Context, row *rules.Kind, req any, name string) (object.Key, error) {
	key := object.Key{Kind: row.Name, Namespace: namespaceOf(req), Name: name}
	if row.Namespaced && key.Namespace == "" {
		key.Namespace = object.DefaultNamespace
	}
	if name == "" {
		return key, requiredError(row.Name, "name", "says which object is meant")
	}
	return key, checkNamespace(ctx, row, key.Namespace)
}

// checkNamespace returns an error if the caller is bound to another namespace than the object has.
func checkNamespace(ctx context.Context, row *rules.Kind, namespace string) error {
	if !row.Namespaced {
		return nil
	}
	return access.CheckNamespace(ctx, namespace)
}

func requiredError(what, field, why string) error {
	return apierr.Invalid(what, "", apierr.Violations{{Field: field, Reason: apierr.ReasonRequired, Message: "required: " + why}})
}

// objectIn returns the object in a request.
func objectIn(req proto.Message, field protoreflect.FieldDescriptor) (object.Object, error) {
	m := req.ProtoReflect()
	if !m.Has(field) {
		return nil, requiredError(string(field.Message().Name()), string(field.Name()), "there is no object in the request")
	}
	o, ok := m.Get(field).Message().Interface().(object.Object)
	if !ok {
		return nil, apierr.Internal(fmt.Errorf("%s is no object", field.FullName()))
	}
	return o, nil
}

// graceOf returns the grace period of a delete request. It returns nil if the request or the kind
// has none.
func graceOf(row *rules.Kind, req proto.Message) (*int64, error) {
	m := req.ProtoReflect()
	field := m.Descriptor().Fields().ByName("grace_period_seconds")
	if field == nil || !m.Has(field) {
		return nil, nil
	}
	seconds := m.Get(field).Int()
	return &seconds, checkGrace(row, seconds)
}

// checkGrace returns an error for a grace period that is out of range.
func checkGrace(row *rules.Kind, seconds int64) error {
	if seconds >= 0 && seconds <= admission.MaxGrace {
		return nil
	}
	return apierr.Invalid(row.Name, "", apierr.Violations{{
		Field: "grace_period_seconds", Reason: apierr.ReasonInvalid,
		Message: fmt.Sprintf("invalid value %d: must be between 0 and %d", seconds, admission.MaxGrace),
	}})
}

// options returns the options of a write from the request and its metadata.
func options(ctx context.Context, req any) (admission.Options, error) {
	o := admission.Options{Limit: access.WriteLimitOf(ctx), Operator: access.IsOperator(ctx), KeepsOwners: !access.MayNameOwners(ctx)}
	if id, err := identity.Caller(ctx); err == nil {
		o.Writer = id.Path()
	}
	if d, ok := req.(dryRun); ok {
		o.DryRun = d.GetDryRun()
	}
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 && isTraceparent(values[0]) {
		o.Traceparent = values[0]
	}
	if values := metadata.ValueFromIncomingContext(ctx, fenceHeader); len(values) > 0 {
		fence, err := parseFence(values[0])
		if err != nil {
			return o, err
		}
		o.Fence = fence
	}
	return o, nil
}

// isTraceparent reports whether a text has the form of a traceparent of version 00, the only
// version. The text is stored with the change, and Postgres refuses bytes that are not UTF-8,
// together with all writes of the same commit.
func isTraceparent(text string) bool {
	const form = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh" // h: a hexadecimal digit
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		isDigit := text[i] >= '0' && text[i] <= '9' || text[i] >= 'a' && text[i] <= 'f'
		if form[i] == 'h' && !isDigit || form[i] != 'h' && text[i] != form[i] {
			return false
		}
	}
	return true
}

// fenceHeader is the request metadata that ties a write to a lease: "<namespace>/<name>=<epoch>".
// Names of leases are short and plain, so that the store can be asked for any of them.
const fenceHeader = "portolan-fence"

func parseFence(text string) (*store.Fence, error) {
	lease, number, ok := strings.Cut(text, "=")
	namespace, name, ok2 := strings.Cut(lease, "/")
	epoch, err := strconv.ParseUint(number, 10, 64)
	if !ok || !ok2 || err != nil || !isPlain(namespace) || !isPlain(name) || epoch == 0 {
		return nil, apierr.Invalid("request", "", apierr.Violations{{
			Field: fenceHeader, Reason: apierr.ReasonInvalid,
			Message: fmt.Sprintf("invalid value %.100q: must be <namespace>/<name>=<epoch>, such as default/leader=7", text),
		}})
	}
	return &store.Fence{Lease: object.Key{Kind: "Lease", Namespace: namespace, Name: name}, Epoch: epoch}, nil
}

// isPlain reports whether a text consists of letters, digits, dots and dashes, and is no longer
// than a name.
func isPlain(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
	return text != "" && len(text) <= 253 && strings.Trim(text, letters) == ""
}
