package gc

import (
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/object"
)

// keepExpiredToken is the time for which an expired Token is kept. Until then its client gets an error
// that the token has expired, and operators see in their list which token they have to replace. A week
// has a working day in it.
const keepExpiredToken = 7 * 24 * time.Hour

// ends has the kinds of objects that are deleted at some time, and the function that returns this time. A
// Revocation is deleted when its certificates have expired, a Token some time after it has expired.
var ends = map[string]func(object.Object) time.Time{
	"Revocation": func(o object.Object) time.Time { return o.(*corev1.Revocation).GetSpec().GetExpires().AsTime() },
	"Token": func(o object.Object) time.Time {
		return o.(*corev1.Token).GetSpec().GetExpires().AsTime().Add(keepExpiredToken)
	},
}

// expired returns the objects that are to be deleted by now.
func (r *Reaper) expired(now time.Time) []*view.Item {
	var expired []*view.Item
	for kind, end := range ends {
		for item := range r.view.State().All(kind, "") {
			if !now.Before(end(item.Object)) {
				expired = append(expired, item)
			}
		}
	}
	return expired
}
