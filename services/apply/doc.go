// Package apply merges what a manifest says into an object: the three-way merge of ApplyService.
//
// The three are the stored object, the manifest, and the fields that the manifest before it set. The merge takes every field
// of the manifest, removes the fields that only the earlier manifest had, and leaves the others alone. The invariant: a field
// that no manifest ever set keeps its value, and applying the same manifest twice changes nothing.
//
// The earlier manifest is remembered as the paths of its fields, in metadata.managed_fields of the object. kubectl keeps the
// whole manifest as an annotation instead. Paths are enough, because a removal needs no former value; they take a third of
// the bytes, which every follower of the change stream receives; they do not count against the 256 KiB of annotations, nor
// appear in manifests that people read; and they are kept by manager, as server-side apply needs it, so that a second manager
// is another entry and no other format. The registry can compute them for every client of the API, since it needs the
// message alone and no YAML.
//
// Lists of which the items have a name (ports, containers, variables) are merged by item, as Kubernetes does it. Any other
// list, and the selector of a service, belongs to one manager as a whole.
package apply
