package admission

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"crypto/rand"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/apply"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// Create stores a new object. It modifies o.
func (w *Writer) Create(ctx context.Context, o object.Object, options Options) (*Result, error) {
	managed, err := entriesOfNew(o)
	if err != nil {
		return nil, err
	}
	return w.createManaged(ctx, o, managed, options)
}

// entriesOfNew returns the managed fields of an object to create, as the client sent them.
func entriesOfNew(o object.Object) ([]*corev1.ManagedFields, error) {
	entries := apply.AfterUpdate(rules.Of(o).New(), o, o.GetMetadata().GetManagedFields(), false, time.Now())
	return entries, invalid(o, apply.Validate(entries))
}

// createManaged creates an object with the given managed fields.
func (w *Writer) createManaged(ctx context.Context, o object.Object, managed []*corev1.ManagedFields, options Options) (*Result, error) {
	row, world := rules.Of(o), w.validationContext(options)
	if err := prepareCreate(row, o, options); err != nil {
		return nil, err
	}
	if row.FindRepeated != nil {
		if same := row.FindRepeated(world, o); same != nil {
			return w.countRepetition(ctx, row, same.Key, o, options)
		}
	}
	identify(o, world, managed)
	meta, generated := object.MetaOf(o), isNameGenerated(o)
	for attempt := 1; ; attempt++ {
		if attempt > 1 {
			meta.Uid = NewUID() // a new one for each attempt, because values of a failed one are released late
		}
		if generated {
			meta.Name = generateName(meta.GetGenerateName())
		}
		result, err := w.create(ctx, row, world, o, options)
		if generated && apierr.IsAlreadyExists(err) && attempt < nameRetries {
			continue
		}
		return result, err
	}
}

// prepareCreate checks what can be checked before anything costly is done with a new object, and
// sets its defaults.
func prepareCreate(row *rules.Kind, o object.Object, options Options) error {
	if err := checkSize(o); err != nil {
		return err
	}
	if err := options.checkLimit(o, nil); err != nil {
		return err
	}
	row.Default(o)
	row.PrepareCreate(o)
	return nil
}

// identify sets the metadata that the registry gives every new object.
func identify(o object.Object, world rules.Context, managed []*corev1.ManagedFields) {
	meta := object.MetaOf(o)
	meta.Uid, meta.Generation, meta.CreationTimestamp = NewUID(), 1, timestamppb.New(world.Now)
	meta.ManagedFields = managed
}

// isNameGenerated reports whether the registry chooses the name of a new object.
func isNameGenerated(o object.Object) bool {
	return o.GetMetadata().GetName() == "" && o.GetMetadata().GetGenerateName() != ""
}

func (w *Writer) create(ctx context.Context, row *rules.Kind, world rules.Context, o object.Object, options Options) (*Result, error) {
	admission, span := tracing.Start(ctx, "admission")
	err := w.validateCreate(admission, row, world, o)
	if span.End(err); err != nil {
		return nil, err
	}
	result, err := w.store(ctx, &pendingWrite{row: row, o: o, options: options})
	if errors.Is(err, store.ErrExists) {
		return nil, apierr.AlreadyExists(row.Name, object.KeyOf(o).Path())
	}
	if err != nil {
		return nil, err
	}
	result.Warnings = options.warnings(row, o)
	return result, nil
}

// validateCreate validates a new object and sets the fields that only the registry sets. It returns
// an error if the object is invalid, its namespace is missing or being deleted, or its name is
// taken.
func (w *Writer) validateCreate(ctx context.Context, row *rules.Kind, world rules.Context, o object.Object) error {
	var found apierr.Violations
	if row.Complete != nil {
		found = row.Complete(world, o, nil)
	}
	found = append(found, row.Validate(o, world.Rules)...)
	if row.Check != nil {
		found = append(found, row.Check(world, o, nil)...)
	}
	if err := invalid(o, found); err != nil {
		return err
	}
	if err := w.checkNamespace(ctx, o); err != nil {
		return err
	}
	if err := w.checkNotExists(ctx, object.KeyOf(o)); err != nil {
		return err
	}
	if row.SetRegistryFields != nil {
		row.SetRegistryFields(world, o, nil)
	}
	return nil
}

// checkNotExists returns AlreadyExists if the object exists, before anything is allocated for it.
// For a dry run this is the only such check; otherwise the store decides.
func (w *Writer) checkNotExists(ctx context.Context, key object.Key) error {
	if w.View.State().Get(key) == nil {
		return nil
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	if w.View.State().Get(key) == nil {
		return nil
	}
	return apierr.AlreadyExists(key.Kind, key.Path())
}

// countRepetition counts a repetition of an existing object instead of creating a new one.
func (w *Writer) countRepetition(ctx context.Context, row *rules.Kind, key object.Key, o object.Object, options Options) (*Result, error) {
	return w.modify(ctx, row, key, options, func(old *view.Item) (changed, error) {
		existing := object.Clone(old.Object)
		row.CountRepetition(w.validationContext(options), existing, o)
		return changed{object: existing}, nil
	})
}

const (
	nameLetters  = "bcdfghjklmnpqrstvwxz2456789" // no vowels, so that no words appear
	suffixLength = 5
	longestName  = 63
)

func generateName(prefix string) string {
	if len(prefix) > longestName-suffixLength {
		prefix = prefix[:longestName-suffixLength]
	}
	var b strings.Builder
	b.WriteString(prefix)
	var random [suffixLength]byte
	rand.Read(random[:]) // never fails
	for _, r := range random {
		b.WriteByte(nameLetters[int(r)%len(nameLetters)])
	}
	return b.String()
}
