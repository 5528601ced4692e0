package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/offers"
	"portolan.dev/registry/internal/quota"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Config is the configuration of a [Writer]. All fields but RevokeDeleted are required.
type Config struct {
	Store     store.Store
	View      *view.View
	Indexes   *rules.Indexes
	Offers    *offers.Catalog // kept up to date with the view
	Allocator *allocator.Client
	Quotas    *quota.Ledger
	Rules     spec.Rules
	Families  []corev1.IPFamily // IP families of the installation, the default first
	// RevocationTTL is the default lifetime of Revocations.
	RevocationTTL time.Duration
	// RevokeDeleted makes the deletion of an object revoke the certificates of the identities that
	// belong to it. It is set if the installation has certificates.
	RevokeDeleted bool
}

// Writer writes objects of all kinds.
type Writer struct{ Config }

// New returns a writer.
func New(config Config) *Writer { return &Writer{config} }

// Options are the parameters of a write other than the object.
type Options struct {
	DryRun      bool         // validate, but store nothing
	Fence       *store.Fence // must hold for the write to be stored
	Traceparent string       // W3C traceparent of the request

	// Limit returns an error for a write that the client's role may not make. nil allows all
	// writes.
	Limit access.WriteLimit
	// Operator is set if an operator makes the write, even if the writes of this operator are limited.
	Operator bool
	// KeepsOwners is set if the managed fields that the client sends are ignored.
	KeepsOwners bool
	// Writer is the path of the identity that makes the write. It is empty without TLS.
	Writer string
}

// checkLimit returns an error if the client's role may not make this write.
func (o *Options) checkLimit(updated, old object.Object) error {
	if o.Limit == nil {
		return nil
	}
	return o.Limit(updated, old)
}

// byController reports whether a controller makes the write: the write names a lease, or the
// client's certificate limits its writes and is no operator's.
func (o *Options) byController() bool { return o.Fence != nil || o.Limit != nil && !o.Operator }

// warnings returns the warnings for a written object. They are meant for people, so a controller
// gets none.
func (o *Options) warnings(kind *rules.Kind, written object.Object) []string {
	if o.byController() {
		return nil
	}
	warnings := kind.Warnings(written)
	if kind.Warn != nil {
		warnings = append(warnings, kind.Warn(time.Now(), written)...)
	}
	return warnings
}

// Result is the result of a write.
type Result struct {
	Object   object.Object // as stored; shared with the view, so it must not be changed
	Warnings []string      // warnings for people
	Changed  bool          // false: the object was already so
	Created  bool          // the object is new
	Removed  bool          // the object is gone, or would be but for a dry run
	Revision uint64        // of the write; 0: nothing was written
}

const (
	maxRetries    = 32  // repetitions of a write that loses races
	maxViolations = 100 // violations in one error, so that it fits into the trailer of a response
)

func (w *Writer) validationContext(options Options) rules.Context {
	return rules.Context{
		ByController: options.byController(), Writer: options.Writer,
		Rules: w.Rules, Families: w.Families, Indexes: w.Indexes, Offers: w.Offers,
		Revision: w.View.State().Revision(), Now: time.Now().Truncate(time.Millisecond), RevocationTTL: w.RevocationTTL,
	}
}

// find returns the object with the given key. If the view lacks it, find waits until the view has
// caught up with the store, because another replica may just have written it.
func (w *Writer) find(ctx context.Context, key object.Key) (*view.Item, error) {
	if item := w.View.State().Get(key); item != nil {
		return item, nil
	}
	if err := w.catchUp(ctx); err != nil {
		return nil, err
	}
	if item := w.View.State().Get(key); item != nil {
		return item, nil
	}
	return nil, apierr.NotFound(key.Kind, key.Path())
}

// catchUp waits until the view has everything that the store has at the time of the call.
func (w *Writer) catchUp(ctx context.Context) error {
	head, err := w.Store.Head(ctx)
	if err != nil {
		return err
	}
	return w.View.WaitForHead(ctx, head)
}

// conflict returns the error for a write that was based on an outdated version.
func conflict(old *view.Item, want uint64) error {
	return apierr.Conflict(old.Key.Kind, old.Key.Path(), old.Revision, want)
}

// validate completes and validates an object, and sets the fields that only the registry sets. old is the
// version that the object replaces, or nil.
func validate(row *rules.Kind, world rules.Context, o, old object.Object) error {
	var found apierr.Violations
	if row.Complete != nil {
		found = row.Complete(world, o, old)
	}
	if old == nil {
		found = append(found, row.Validate(o, world.Rules)...)
	} else {
		found = append(found, row.ValidateUpdate(o, old, world.Rules)...)
	}
	if row.Check != nil {
		found = append(found, row.Check(world, o, old)...)
	}
	if err := invalid(o, found); err != nil {
		return err
	}
	if row.SetRegistryFields != nil {
		row.SetRegistryFields(world, o, old)
	}
	return nil
}

// invalid returns the error for violations, or nil if there are none.
func invalid(o object.Object, found apierr.Violations) error {
	if len(found) == 0 {
		return nil
	}
	if more := len(found) - maxViolations; more > 0 {
		found = append(found[:maxViolations:maxViolations], apierr.Violation{
			Reason: apierr.ReasonInvalid, Message: fmt.Sprintf("and %d more violations", more),
		})
	}
	key := object.KeyOf(o)
	return apierr.Invalid(key.Kind, key.Path(), found)
}

// checkSize returns an error if an object is larger than its kind allows. It is called before
// anything costly is done with the object.
func checkSize(o object.Object) error {
	sized, ok := o.(interface{ SizeVT() int })
	if !ok {
		return nil
	}
	kind := rules.Of(o)
	if sized.SizeVT() <= kind.MaxBytes {
		return nil
	}
	return invalid(o, apierr.Violations{{
		Field: "metadata", Reason: apierr.ReasonTooLong, Message: fmt.Sprintf("the %s has %d bytes, at most %d are allowed", kind.Name, sized.SizeVT(), kind.MaxBytes),
	}})
}

// checkNamespace returns an error if the namespace of a new object does not exist or is being
// deleted.
func (w *Writer) checkNamespace(ctx context.Context, o object.Object) error {
	name := o.GetMetadata().GetNamespace()
	if name == "" {
		return nil
	}
	item, err := w.find(ctx, object.Key{Kind: "Namespace", Name: name})
	if err != nil {
		return err
	}
	if item.Object.GetMetadata().GetDeletionTimestamp() != nil {
		return invalid(o, apierr.Violations{{
			Field: "metadata.namespace", Reason: apierr.ReasonForbidden, Message: fmt.Sprintf("forbidden: namespace %q is being deleted", name),
		}})
	}
	return nil
}

// NewUID returns a random UUID.
func NewUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// conflictingVersion returns the version that a write conflicted with, if a conflict is why it
// failed.
func conflictingVersion(err error) (uint64, bool) {
	lost := (*store.ConflictError)(nil)
	if !errors.As(err, &lost) {
		return 0, false
	}
	return lost.Have, true
}
