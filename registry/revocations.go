package registry

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
)

// denyChanged applies changes of Revocations, from this and from other replicas, to the list of
// certificates that this replica refuses.
func (d *Daemon) denyChanged(list []*view.Change) {
	added, removed := map[string]identity.Denial{}, []string(nil)
	for _, change := range list {
		name := change.Last.Key.Name
		if r, ok := change.Last.Object.(*corev1.Revocation); !ok {
			continue
		} else if change.New != nil {
			added[name] = changes.DenialOf(r)
		} else {
			delete(added, name)
			removed = append(removed, name)
		}
	}
	d.host.Identity.DenyList().Update(added, removed)
}

// denyAll makes this replica refuse the certificates that the Revocations of a state deny.
func (d *Daemon) denyAll(state *view.State) {
	all := map[string]identity.Denial{}
	for item := range state.All("Revocation", "") {
		if r, ok := item.Object.(*corev1.Revocation); ok {
			all[item.Key.Name] = changes.DenialOf(r)
		}
	}
	d.host.Identity.DenyList().Replace(all)
}
