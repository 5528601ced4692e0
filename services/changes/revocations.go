package changes

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// revocationKind is the kind of the objects for the process's list of denied certificates.
const revocationKind = "Revocation"

// DenialOf returns the denial that a Revocation describes.
func DenialOf(r *corev1.Revocation) identity.Denial {
	denial := identity.Denial{Identity: r.GetSpec().GetIdentity(), Serial: r.GetSpec().GetSerial(), Reason: r.GetSpec().GetReason()}
	if at := r.GetSpec().GetIssuedBefore(); at != nil {
		denial.IssuedBefore = at.AsTime()
	}
	return denial
}

// isRevocation reports whether an object is for the list of denied certificates.
func (f *Follower) isRevocation(o object.Object) bool {
	_, ok := o.(*corev1.Revocation)
	return ok && f.cfg.Revocations != nil
}

// takeRevocations applies the Revocations of a batch to the process's list, and returns the other
// changes. It runs before Apply, which may take long.
func (f *Follower) takeRevocations(batch []Change) []Change {
	if f.cfg.Revocations == nil {
		return batch
	}
	if !slices.ContainsFunc(batch, func(c Change) bool { return c.Kind == revocationKind }) {
		return batch
	}
	added, removed := map[string]identity.Denial{}, []string(nil)
	var others []Change
	for _, change := range batch {
		if change.Kind != revocationKind {
			others = append(others, change)
			continue
		}
		if r, ok := change.New.(*corev1.Revocation); ok {
			added[change.Key.Name] = DenialOf(r)
		} else {
			delete(added, change.Key.Name)
			removed = append(removed, change.Key.Name)
		}
	}
	f.cfg.Revocations.Update(added, removed)
	return others
}

// readFollowed reads a snapshot of the followed kinds, of the given revision or a later one. A registry of
// an earlier release refuses to list the kind Revocation, because it does not have the kind. The allocator
// is upgraded before the registries, so the follower then reads the other kinds, and takes another snapshot
// every StaleAfter until a registry has the kind.
func (f *Follower) readFollowed(ctx context.Context, minRevision uint64) (snapshot, error) {
	snap, err := f.readSnapshot(ctx, f.cfg.Kinds, minRevision)
	f.revocationsDue = time.Time{}
	if f.cfg.Revocations == nil || len(f.cfg.Kinds) == 0 || status.Code(err) != codes.InvalidArgument {
		return snap, err
	}
	f.revocationsDue = time.Now().Add(f.cfg.StaleAfter)
	kinds := slices.DeleteFunc(slices.Clone(f.cfg.Kinds), func(kind string) bool { return kind == revocationKind })
	if snap, err = f.readSnapshot(ctx, kinds, minRevision); err != nil {
		return snap, err
	}
	f.cfg.Log.Warn("the registry is of an earlier release and has no revocations", "revision", snap.revision)
	if snap.epoch == f.epoch { // revocations from another replica stay in force
		snap.objects = append(snap.objects, f.view.List(revocationKind)...)
	}
	return snap, nil
}
