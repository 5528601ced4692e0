package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/alloc"
	"portolan.dev/registry/kinds"
	"portolan.dev/registry/scope"
	"portolan.dev/registry/store"
	"portolan.dev/registry/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Config is what writes need. All of it is required.
type Config struct {
	Store    store.Store
	View     *view.View
	Indexes  *kinds.Indexes
	Alloc    *alloc.Client
	Rules    spec.Rules
	Families []corev1.IPFamily // that the installation has, its default first
	Log      *slog.Logger
}

// Writer writes objects of all kinds.
type Writer struct{ Config }

// New returns a writer.
func New(config Config) *Writer { return &Writer{config} }

// Options are what a write is asked for beside the object.
type Options struct {
	DryRun      bool         // check everything, store nothing
	Fence       *store.Fence // must hold for the write to happen
	Traceparent string       // W3C traceparent of the request

	// Limit says what of objects the client may write; nil: everything.
	Limit scope.Limit
}

// allow asks the limit of a write.
func (o *Options) allow(updated, old object.Object) error {
	if o.Limit == nil {
		return nil
	}
	return o.Limit(updated, old)
}

// byController reports whether a controller makes the write: it names its lease, or its certificate
// limits what it may write.
func (o *Options) byController() bool { return o.Fence != nil || o.Limit != nil }

// warnings returns what a person should know of a written object; a controller does not read them.
func (o *Options) warnings(written object.Object) []string {
	if o.byController() {
		return nil
	}
	return spec.Warnings(written)
}

// Result is what a write did.
type Result struct {
	Object   object.Object // as stored; nobody else has it
	Warnings []string      // what a person should know
	Changed  bool          // false: the object was already so
	Created  bool          // the object is new
}

const (
	maxObject   = 3 << 19 // 1.5 MiB
	maxRetries  = 32      // of a write that names no version and loses races
	nameRetries = 8       // of a generated name that is taken
	mostReports = 100     // violations in one error, so that it fits the trailer of an answer
)

func (w *Writer) world(options Options) kinds.World {
	return kinds.World{
		ByController: options.byController(),
		Rules:        w.Rules, Families: w.Families, Indexes: w.Indexes,
		Revision: w.View.State().Revision(), Now: time.Now().Truncate(time.Millisecond),
	}
}

// find returns an object, also one that another replica stored a moment ago.
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

// catchUp waits until the view has everything that is stored now.
func (w *Writer) catchUp(ctx context.Context) error {
	head, err := w.Store.Head(ctx)
	if err != nil {
		return err
	}
	return w.View.WaitForHead(ctx, head)
}

// conflict says that an object is not what the client takes it for.
func conflict(old *view.Item, want uint64) error {
	return apierr.Conflict(old.Key.Kind, old.Key.Path(), old.Revision, want)
}

// invalid makes the error of violations; nil where there are none.
func invalid(o object.Object, found apierr.Violations) error {
	if len(found) == 0 {
		return nil
	}
	if more := len(found) - mostReports; more > 0 {
		found = append(found[:mostReports:mostReports], apierr.Violation{
			Reason: apierr.ReasonInvalid, Message: fmt.Sprintf("and %d more violations", more),
		})
	}
	key := object.KeyOf(o)
	return apierr.Invalid(key.Kind, key.Path(), found)
}

// checkSize refuses an object before anything costly is done with it.
func checkSize(o object.Object) error {
	sized, ok := o.(interface{ SizeVT() int })
	if !ok || sized.SizeVT() <= maxObject {
		return nil
	}
	return invalid(o, apierr.Violations{{
		Field: "metadata", Reason: apierr.ReasonTooLong, Message: fmt.Sprintf("the object has %d bytes, at most %d are allowed", sized.SizeVT(), maxObject),
	}})
}

// checkNamespace refuses new objects where there is no namespace for them, or none for long.
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

// retriable returns the version that a write lost against, if it was that what it failed of.
func retriable(err error) (uint64, bool) {
	lost := (*store.Conflict)(nil)
	if !errors.As(err, &lost) {
		return 0, false
	}
	return lost.Have, true
}
