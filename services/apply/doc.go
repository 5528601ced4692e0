// Package apply merges a manifest into a stored object, and keeps a record of the manager of each field.
// It implements ApplyService.
//
// The three inputs of the merge are the stored object, the manifest, and the fields that the previous
// manifest set. The merge sets every field of the manifest, removes the fields that only the previous
// manifest had, and leaves all other fields alone. The invariant: a field that no manifest ever set
// keeps its value, and applying the same manifest twice changes nothing.
//
// It is server-side apply with force, by the manager [Manager]. Other managers come from the API of
// Kubernetes, by apply or by other writes, which kubeapi tracks with Kubernetes' own code. All are entries
// of metadata.managed_fields in Kubernetes' format (fieldpath.Set). The registry applies these rules:
//
//   - A field that the previous manifest set and this one omits stays if another manager owns it.
//   - If a write changes the value of a field, its previous managers no longer own the field. ApplyService
//     answers with a warning if a manifest changed the value.
//   - An update by the registry's API has no manager. The fields that it changes have no owner afterwards.
//
// Entries have paths of fields and no values, because removing a field does not need its former value.
// kubectl's client-side apply stores the whole manifest in an annotation instead. Entries do not count
// against the 256 KiB of annotations, and do not appear in manifests that people read. An update of an
// object that only the registry's API has written needs no work here, because the object has no entries.
//
// Lists with named items (ports, containers, variables) are merged by item, as in Kubernetes. Any
// other list, and the selector of a service, belongs to one manager as a whole. Paths use Kubernetes'
// names of fields. A field that Kubernetes lacks has the path of the annotation that represents it in a
// manifest. So managers of both APIs use the same path for the same field.
//
// # Earlier releases
//
// Earlier releases stored paths in another format, in a field that is now deprecated. This release reads
// them, and replaces them when ApplyService writes the entry. A registry of an earlier release keeps the
// entries of this release, but finds no paths in the entry of ApplyService. So while registries of both
// releases run, a field that is taken out of a manifest may stay in the object, and the managers of a field
// may still own it after an update has changed it.
package apply
