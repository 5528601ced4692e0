// Package apply merges a manifest into a stored object. It implements the three-way merge of
// ApplyService.
//
// The three inputs are the stored object, the manifest, and the fields that the previous manifest
// set. The merge sets every field of the manifest, removes the fields that only the previous
// manifest had, and leaves all other fields alone. The invariant: a field that no manifest ever set
// keeps its value, and applying the same manifest twice changes nothing.
//
// The previous manifest is stored as the paths of its fields, in metadata.managed_fields of the
// object. kubectl stores the whole manifest in an annotation instead. Paths are enough, because
// removing a field does not need its former value. They take a third of the bytes, which every
// follower of the change stream receives. They do not count against the 256 KiB of annotations, and
// do not appear in manifests that people read. They are stored per manager, as server-side apply
// needs them, so a second manager would be another entry and not another format. The registry can
// compute them for every client of the API, because it needs only the message and no YAML.
//
// Lists with named items (ports, containers, variables) are merged by item, as in Kubernetes. Any
// other list, and the selector of a service, belongs to one manager as a whole.
package apply
