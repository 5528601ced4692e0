package admission

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"crypto/rand"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/store"
	"portolan.dev/services/apply"
	"portolan.dev/services/object"
)

// entriesOfNew returns the managed fields of an object to create, as the client sent them.
func entriesOfNew(o object.Object, options Options) ([]*corev1.ManagedFields, error) {
	if options.KeepsOwners {
		return nil, nil
	}
	entries := apply.AfterUpdate(rules.Of(o).New(), o, o.GetMetadata().GetManagedFields(), false, time.Now())
	return entries, invalid(o, apply.Validate(entries))
}

// beginCreate checks the size of a new object and the rights of its client, before anything costly is done
// with it, and sets its defaults.
func (r *request) beginCreate(o object.Object) error {
	if err := checkSize(o); err != nil {
		return err
	}
	if err := r.options.checkLimit(o, nil); err != nil {
		return err
	}
	r.row.Default(o)
	r.row.PrepareCreate(o)
	return nil
}

// prepareCreate returns the step that stores a new object. If the object repeats a stored one, the
// step counts the repetition there.
func (w *Writer) prepareCreate(ctx context.Context, r *request) (step, error) {
	o, managed := r.Object, r.managed
	if r.Action == Apply {
		o, managed = object.Clone(o), r.application.Created(time.Now()) // an update needs the manifest as it was sent
		if err := r.beginCreate(o); err != nil {
			return step{}, err
		}
	}
	world := w.validationContext(r.options)
	if r.row.FindRepeated != nil {
		if same := r.row.FindRepeated(world, o); same != nil {
			return w.prepareRepetition(ctx, r, same.Key, o)
		}
	}
	meta := object.MetaOf(o)
	// Each attempt has a UID of its own, because the values of a failed attempt are released late.
	meta.Uid, meta.Generation, meta.CreationTimestamp = NewUID(), 1, timestamppb.New(world.Now)
	meta.ManagedFields = managed
	if r.generated {
		meta.Name = generateName(meta.GetGenerateName())
		r.Key.Name = meta.GetName()
	}
	if err := validate(r.row, world, o, nil); err != nil {
		return step{}, err
	}
	if err := w.checkNamespace(ctx, o); err != nil {
		return step{}, err
	}
	if err := w.checkNotExists(ctx, object.KeyOf(o)); err != nil {
		return step{}, err
	}
	return step{row: r.row, object: o, options: r.options, warns: true}, nil
}

// checkNotExists returns store.ErrExists if the object exists, before anything is allocated for it.
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
	return store.ErrExists
}

// prepareRepetition returns the step that counts a repetition of the stored object with the given
// key, instead of storing o.
func (w *Writer) prepareRepetition(ctx context.Context, r *request, key object.Key, o object.Object) (step, error) {
	old, err := w.find(ctx, key)
	if err != nil {
		return step{}, err
	}
	counted := object.Clone(old.Object)
	r.row.CountRepetition(w.validationContext(r.options), counted, o)
	return w.replacement(r, old, counted)
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
