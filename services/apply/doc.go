// Package apply merges a manifest into a stored object, and knows which manager owns which fields of an
// object. It implements ApplyService.
//
// The three inputs of the merge are the stored object, the manifest, and the fields that the previous
// manifest set. The merge sets every field of the manifest, removes the fields that only the previous
// manifest had, and leaves all other fields alone. The invariant: a field that no manifest ever set
// keeps its value, and applying the same manifest twice changes nothing.
//
// It is server-side apply with force, by the manager [Manager]. Other managers come from the API of
// Kubernetes, by apply or by other writes, which kubeapi tracks with Kubernetes' own code. All are entries
// of metadata.managed_fields in Kubernetes' format (fieldpath.Set), and the registry keeps them true:
//
//   - A field that the previous manifest set and this one omits stays if another manager owns it.
//   - A field whose value a write changes is taken from the managers that owned it. ApplyService answers
//     with a warning if the manifest changed it.
//   - An update of the registry's API has no manager. It takes the fields that it changes, and nobody owns
//     them afterwards.
//
// Paths are enough, because removing a field does not need its former value; kubectl's client-side apply
// stores the whole manifest in an annotation instead. Entries do not count against the 256 KiB of
// annotations, and do not appear in manifests that people read. An object without entries, which only
// the registry's API has written, costs an update nothing.
//
// Lists with named items (ports, containers, variables) are merged by item, as in Kubernetes. Any
// other list, and the selector of a service, belongs to one manager as a whole. Fields are named as in
// Kubernetes, and a field that only Portolan has by the annotation that stands for it in a manifest, so
// that managers of both APIs meet at the same field.
//
// # Earlier releases
//
// Earlier releases stored paths of their own, in the field that is now deprecated. They are read, and
// replaced when ApplyService writes the entry. While registries of both releases run, the earlier one
// keeps entries of this one, and finds no paths in the entry of ApplyService: a field that is taken out
// of a manifest during the upgrade may stay in the object. It does not take fields that an update changes
// from their managers either.
package apply
