package applyset

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Stale returns the stored objects that are to be pruned, in the order in which they can be deleted:
// objects before those that they refer to. Objects of kinds without namespaces are left out if the
// caller may not list them, because then it cannot have applied any either.
func (s *Set) Stale(ctx context.Context, registry *client.Client) ([]object.Object, error) {
	var stale []object.Object
	for _, kind := range slices.Backward(kinds.All) {
		if kind.Lasting {
			continue
		}
		found, err := s.matching(ctx, registry, kind)
		if apierr.Code(err) == codes.PermissionDenied && !kind.Namespaced {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s to prune: %w", kind.Plural, err)
		}
		for _, o := range found {
			if s.isStale(o) {
				stale = append(stale, o)
			}
		}
	}
	return stale, nil
}

// matching returns the stored objects of a kind that match the selector, in the namespaces of the set.
func (s *Set) matching(ctx context.Context, registry *client.Client, kind *kinds.Kind) ([]object.Object, error) {
	namespaces := s.namespaces
	if s.everywhere || !kind.Namespaced {
		namespaces = []string{""}
	}
	var all []object.Object
	for _, namespace := range namespaces {
		found, _, err := registry.List(ctx, kind, client.Query{Namespace: namespace, Labels: s.selector.String()})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Prune deletes stale objects of a set, in their order. The caller has applied the set before.
func (r *Run) Prune(ctx context.Context, s *Set, stale []object.Object) {
	EachKind(stale, object.KeyOf, func(objects []object.Object) {
		Concurrently(objects, func(o object.Object) { r.prune(ctx, s, o) })
	})
}

// pruneAttempts is the number of versions of an object for which its deletion is tried. An object that
// changes more often while it is pruned is reported.
const pruneAttempts = 5

// prune deletes an object under its UID and version. If the object has changed, the decision is made
// again for the new version. An object that is gone or no longer stale is not reported.
func (r *Run) prune(ctx context.Context, s *Set, o object.Object) {
	kind := kinds.Of(o)
	var err error
	for range pruneAttempts {
		meta := o.GetMetadata()
		_, err = r.Registry.Delete(ctx, client.Deletion{Key: object.KeyOf(o), UID: meta.GetUid(), Version: meta.GetResourceVersion(), DryRun: r.DryRun})
		if apierr.Code(err) != codes.Aborted {
			break
		}
		current, readErr := r.Registry.Get(ctx, kind, meta.GetNamespace(), meta.GetName())
		if readErr != nil {
			err = readErr
			break
		}
		if current.GetMetadata().GetUid() != meta.GetUid() || !s.isStale(current) {
			return
		}
		o = current
	}
	switch {
	case apierr.Code(err) == codes.NotFound:
	case err != nil:
		r.report(Result{Object: o, Err: fmt.Errorf("prune: %w", err)})
	default:
		r.report(Result{Object: o, Action: Pruned})
	}
}
