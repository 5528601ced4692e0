package gc

import (
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
)

// keepExpiredToken is the time for which an expired Token is kept. Until then its client is told that it
// expired, and not that there is none, and operators see in their list which one they have to replace. A
// week has a working day in it.
const keepExpiredToken = 7 * 24 * time.Hour

// expiredTokens returns the Tokens that expired long ago.
func (r *Reaper) expiredTokens(now time.Time) []*view.Item {
	var expired []*view.Item
	for item := range r.view.State().All("Token", "") {
		if o, ok := item.Object.(*corev1.Token); ok && !now.Before(o.GetSpec().GetExpires().AsTime().Add(keepExpiredToken)) {
			expired = append(expired, item)
		}
	}
	return expired
}
