// Package applyset makes the registry hold what a set of manifests says. It applies the objects of the
// set, and it prunes: it deletes the objects that an earlier version of the set had.
//
// The command line and registrar use it. It prints nothing: each object has a [Result].
//
// # Pruning
//
// A label selector says which objects belong to the set, as in "kubectl apply --prune -l". An object is
// pruned if all of this is true:
//
//   - its labels match the selector, and every object of the set must match it too, so that the set
//     itself finds again what it applied;
//   - ApplyService has applied it, which its managed fields say: what a controller, an agent or
//     "portolan run" has created is never pruned;
//   - it has no owner, because its owner deletes it;
//   - it is in one of the namespaces of the pruning;
//   - its kind is not marked as lasting in the table of kinds: Nodes, whose deletion revokes
//     certificates, Revocations, whose deletion permits them again, Leases and Events.
//
// The invariants: nothing is pruned before all objects of the set are applied, and an object that changes
// after the decision is not deleted before the decision was made again for its new version. Each deletion
// names the UID and the version.
//
// The alternative to a selector was an inventory: an object in the registry with the names of all objects
// of the set. It needs no labels and finds objects in every namespace, but it is a second truth beside the
// objects. If it is lost, or restored from a backup, nothing of the set is found again.
package applyset
