package apply

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Manager is the manager's name in the managed fields of ApplyService.
const Manager = "apply"

const (
	opApply  = corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_APPLY
	opUpdate = corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_UPDATE

	// subStatus is the subresource of fields that are written with the status.
	subStatus = "status"
)

// owner is a manager with the fields that it owns.
type owner struct {
	*corev1.ManagedFields
	fields *fieldpath.Set
	was    *fieldpath.Set // the fields as they are stored; nil: the entry is new, or is to be written anew
}

// ownersOf returns the owners of the fields of an object. Entries that cannot be read own nothing.
func ownersOf(o object.Object) []*owner {
	stored := o.GetMetadata().GetManagedFields()
	owners := make([]*owner, 0, len(stored)+1)
	for _, entry := range stored {
		one := &owner{ManagedFields: entry, fields: fieldpath.NewSet()}
		if isEarlier(entry) {
			one.fields = earlierFields(o, entry)
		} else if one.fields.FromJSON(bytes.NewReader(entry.GetFieldsV1())) != nil {
			one.fields = fieldpath.NewSet()
		}
		one.was = one.fields
		owners = append(owners, one)
	}
	return owners
}

// isApply reports whether the owner is ApplyService.
func (o *owner) isApply() bool { return isOfApply(o.ManagedFields) }

// isOfApply reports whether ApplyService wrote an entry.
func isOfApply(entry *corev1.ManagedFields) bool {
	return entry.GetManager() == Manager && entry.GetOperation() != opUpdate && entry.GetSubresource() == ""
}

// IsApplied reports whether ApplyService owns fields of an object: a manifest has created or changed it.
func IsApplied(o object.Object) bool {
	return slices.ContainsFunc(o.GetMetadata().GetManagedFields(), isOfApply)
}

// lose removes fields, and all fields below them, from the fields of an owner.
func (o *owner) lose(fields *fieldpath.Set) { o.fields = o.fields.RecursiveDifference(fields) }

// entry returns the entry to store: the stored one if the fields are the same. It returns nil if the
// owner owns nothing.
func (o *owner) entry(of object.Object, now time.Time) *corev1.ManagedFields {
	switch {
	case o.fields.Empty():
		return nil
	case o.was != nil && o.fields.Equals(o.was):
		return o.ManagedFields
	}
	text, err := o.fields.ToJSON()
	if err != nil {
		return o.ManagedFields // impossible: the names are texts
	}
	to := &corev1.ManagedFields{
		Manager: o.GetManager(), Operation: cmp.Or(o.GetOperation(), opApply), ApiVersion: cmp.Or(o.GetApiVersion(), apiVersionOf(of)),
		Subresource: o.GetSubresource(), FieldsV1: text, Time: o.GetTime(),
	}
	if to.Time == nil || o.isApply() {
		to.Time = timestamppb.New(now)
	}
	return to
}

// store returns the entries of the owners of an object.
func store(owners []*owner, of object.Object, now time.Time) []*corev1.ManagedFields {
	var stored []*corev1.ManagedFields
	for _, one := range owners {
		if entry := one.entry(of, now); entry != nil {
			stored = append(stored, entry)
		}
	}
	return sorted(stored)
}

// sorted returns entries in the order of their identifying fields, so that lists with the same entries
// are equal.
func sorted(list []*corev1.ManagedFields) []*corev1.ManagedFields {
	return slices.SortedFunc(slices.Values(list), func(a, b *corev1.ManagedFields) int {
		return cmp.Or(
			strings.Compare(a.GetSubresource(), b.GetSubresource()), cmp.Compare(a.GetOperation(), b.GetOperation()),
			strings.Compare(a.GetManager(), b.GetManager()), strings.Compare(a.GetApiVersion(), b.GetApiVersion()),
		)
	})
}

// Current returns the managed fields of an object in the present format.
func Current(o object.Object) []*corev1.ManagedFields {
	stored := o.GetMetadata().GetManagedFields()
	if !slices.ContainsFunc(stored, isEarlier) {
		return stored
	}
	owners := ownersOf(o)
	for _, one := range owners {
		if isEarlier(one.ManagedFields) {
			one.was = nil
		}
	}
	return store(owners, o, o.GetMetadata().GetCreationTimestamp().AsTime())
}

// AfterUpdate returns the managed fields of an object after an update, or after an update of the status
// only. sent has the entries of the request if the request names a version, otherwise none. If they differ
// from the entries of the stored object, they replace these. A client that writes back an object that it
// has read sends equal entries. The fields that the update changes are removed from all entries that the
// request has not replaced.
func AfterUpdate(stored, updated object.Object, sent []*corev1.ManagedFields, status bool, now time.Time) []*corev1.ManagedFields {
	had := stored.GetMetadata().GetManagedFields()
	determined := len(sent) > 0 && !equal(sorted(sent), sorted(had))
	if len(had) == 0 && !determined {
		return nil
	}
	var result []*corev1.ManagedFields
	if determined {
		for _, entry := range sent {
			if (entry.GetSubresource() == subStatus) == status && !isEmpty(entry) {
				result = append(result, entry)
			}
		}
	}
	kept := slices.DeleteFunc(ownersOf(stored), func(o *owner) bool { return determined && (o.GetSubresource() == subStatus) == status })
	if len(kept) > 0 {
		changed := changedFields(stored, updated)
		for _, one := range kept {
			one.lose(changed)
		}
	}
	return sorted(append(result, store(kept, updated, now)...))
}

// isEmpty reports whether an entry is the empty one that removes all.
func isEmpty(entry *corev1.ManagedFields) bool { return proto.Size(entry) == 0 }

func equal(a, b []*corev1.ManagedFields) bool {
	return slices.EqualFunc(a, b, func(a, b *corev1.ManagedFields) bool { return proto.Equal(a, b) })
}

// EqualWithoutTimes reports whether two lists of entries differ in nothing but times.
func EqualWithoutTimes(a, b []*corev1.ManagedFields) bool {
	return slices.EqualFunc(a, b, func(a, b *corev1.ManagedFields) bool {
		return a.GetManager() == b.GetManager() && a.GetOperation() == b.GetOperation() && a.GetApiVersion() == b.GetApiVersion() &&
			a.GetSubresource() == b.GetSubresource() && bytes.Equal(a.GetFieldsV1(), b.GetFieldsV1()) && slices.Equal(a.GetFields(), b.GetFields())
	})
}

// describe returns the paths of fields for people, at most a few of them.
func describe(fields *fieldpath.Set) string {
	const most = 8
	var paths []string
	for path := range fields.All() {
		if len(paths) == most {
			paths = append(paths, "…")
			break
		}
		paths = append(paths, strings.TrimPrefix(path.String(), "."))
	}
	return strings.Join(paths, ", ")
}
