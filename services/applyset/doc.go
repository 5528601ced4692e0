// Package applyset applies the objects of a set of manifests to the registry. It also prunes: it deletes
// the objects that an earlier version of the set had and this version lacks.
//
// The command line and the registrar use it. It reports a [Result] for each object.
//
// # Pruning
//
// A label selector says which objects belong to the set, as in "kubectl apply --prune -l". An object is
// pruned if all of this is true:
//
//   - its labels match the selector (every object of the set must match it, so that a later version of
//     the set finds all objects that this version applied);
//   - its managed fields show that ApplyService has applied it, so that objects created by a controller,
//     an agent or "portolan run" are never pruned;
//   - it has no owner, because its owner deletes it;
//   - it is in one of the namespaces of the pruning;
//   - its kind is not marked as lasting in the table of kinds. Lasting are Nodes, because their deletion
//     revokes certificates, Revocations, because their deletion permits certificates again, Leases and
//     Events.
//
// The invariants: no object is pruned before all objects of the set are applied. An object that changes
// after the decision to prune it is deleted only after a new decision for its new version. Each deletion
// names the UID and the version.
//
// The alternative to a selector was an inventory: an object in the registry with the names of all objects
// of the set. It needs no labels and finds objects in every namespace, but it can contradict the objects.
// If it is lost, or restored from an old backup, the objects of the set are not found again.
package applyset
