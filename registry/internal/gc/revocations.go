package gc

import (
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
)

// expiredRevocations returns the Revocations whose certificates have expired.
func (r *Reaper) expiredRevocations(now time.Time) []*view.Item {
	var expired []*view.Item
	for item := range r.view.State().All("Revocation", "") {
		if o, ok := item.Object.(*corev1.Revocation); ok && !now.Before(o.GetSpec().GetExpires().AsTime()) {
			expired = append(expired, item)
		}
	}
	return expired
}
