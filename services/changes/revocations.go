package changes

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
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
		f.cfg.Guard.Run(stepRevoke, guard.Object(change.Key), func() {
			if r, ok := change.New.(*corev1.Revocation); ok {
				added[change.Key.Name] = DenialOf(r)
			} else {
				delete(added, change.Key.Name)
				removed = append(removed, change.Key.Name)
			}
		})
	}
	f.cfg.Revocations.Update(added, removed)
	return others
}
