package daemon

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/object"
)

// The methods that requests and responses have in common.
type (
	withName      interface{ GetName() string }
	withNamespace interface{ GetNamespace() string }
	withUID       interface{ GetUid() string }
	withDryRun    interface{ GetDryRun() bool }
	withObject    interface{ GetObject() *corev1.Object }
	withPool      interface{ GetPool() *allocatorv1.Pool }
	withRevision  interface{ GetRevision() uint64 }
	// withWritten is a response of the registry that has the object in encoded form. The revision is 0
	// if nothing was written.
	withWritten interface {
		Written() (meta *corev1.ObjectMeta, revision uint64)
	}
)

// subject describes the requests of a method of a kind.
type subject struct {
	kind *kinds.Kind
	// object is the field with an object of the kind, or nil.
	object protoreflect.FieldDescriptor
}

// subjects are the methods of all kinds, by their full names.
var subjects = func() map[string]subject {
	all := map[string]subject{}
	services := registryv1.File_portolan_registry_v1_watch_proto.Package()
	for _, kind := range kinds.All {
		for method := range kind.Methods() {
			all["/"+string(services)+"."+kind.ServiceName()+"/"+method] = subject{kind, requestField(services.Append(protoreflect.Name(method+"Request")), kind)}
		}
	}
	return all
}()

// objectOf returns the object of a call for the audit log. It reads only names, the UID and the revision
// of a message.
func objectOf(method string, request, response any) audit.Object {
	o := audit.Object{}
	if r, ok := request.(withDryRun); ok {
		o.DryRun = r.GetDryRun()
	}
	if r, ok := response.(withWritten); ok { // it has everything
		if meta, revision := r.Written(); meta != nil {
			o.Kind = subjects[method].kind.Name
			describeStored(&o, meta, revision)
			return o
		}
	}
	switch r := request.(type) {
	case *allocatorv1.AllocateRequest:
		describeClaims(&o, r.GetSets())
	case *allocatorv1.ConfirmRequest:
		describeOwners(&o, r.GetOwners())
	case *allocatorv1.ReleaseRequest:
		describeOwners(&o, r.GetOwners())
	case *allocatorv1.DeletePoolRequest:
		o.Kind, o.Name = poolKind, r.GetName()
	case *registryv1.WriteRequest:
		describeOperations(&o, r.GetOperations())
	case withPool:
		o.Kind, o.Name = poolKind, r.GetPool().GetName()
	case withObject:
		describe(&o, object.Unwrap(r.GetObject()))
	case proto.Message:
		describeRequest(&o, subjects[method], r)
	}
	describeResponse(&o, response)
	return o
}

// poolKind is the kind of the allocator's pools, which are no objects of the registry.
const poolKind = "Pool"

// requestField returns the field of a request that has an object of a kind, or nil.
func requestField(request protoreflect.FullName, kind *kinds.Kind) protoreflect.FieldDescriptor {
	message, err := protoregistry.GlobalTypes.FindMessageByName(request)
	if err != nil {
		return nil // the registry does not start without it
	}
	return kind.FieldIn(message.Descriptor())
}

// describeRequest describes the object of a request of a method of a kind, or the object that
// another request names.
func describeRequest(o *audit.Object, s subject, request proto.Message) {
	if s.object != nil {
		written, _ := request.ProtoReflect().Get(s.object).Message().Interface().(object.Object)
		describe(o, written)
	}
	if s.kind != nil {
		o.Kind = s.kind.Name
	}
	if r, ok := request.(withName); ok {
		o.Name = r.GetName()
	}
	if r, ok := request.(withNamespace); ok {
		o.Namespace = r.GetNamespace()
	}
	if r, ok := request.(withUID); ok {
		o.UID = r.GetUid()
	}
	if o.Namespace == "" && o.Name != "" && s.kind != nil && s.kind.Namespaced {
		o.Namespace = object.DefaultNamespace
	}
}

// describe describes an object of a request, which may be nil. It leaves out the UID, because an
// object that is not stored has none, and the registry sets one in the request before it refuses
// the object.
func describe(o *audit.Object, described object.Object) {
	if described == nil {
		return
	}
	o.Kind = object.KindOf(described)
	o.Namespace, o.Name = described.GetMetadata().GetNamespace(), described.GetMetadata().GetName()
}

// describeStored describes the stored object of a response.
func describeStored(o *audit.Object, meta *corev1.ObjectMeta, revision uint64) {
	o.Namespace, o.Name, o.Revision = meta.GetNamespace(), meta.GetName(), revision
	if !o.DryRun {
		o.UID = meta.GetUid()
	}
}

// describeResponse adds the UID and the revision, which only a response has.
func describeResponse(o *audit.Object, response any) {
	switch r := response.(type) {
	case *registryv1.ApplyResponse:
		describeApplied(o, r)
	case withRevision:
		o.Revision = r.GetRevision()
	}
}

func describeApplied(o *audit.Object, response *registryv1.ApplyResponse) {
	applied := object.Unwrap(response.GetObject())
	if applied == nil {
		return
	}
	meta, revision := applied.GetMetadata(), uint64(0)
	if !o.DryRun && response.GetOutcome() != registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
		revision = meta.GetResourceVersion()
	}
	describeStored(o, meta, revision)
}

// describeOperations describes the objects of a bulk call.
func describeOperations(o *audit.Object, operations []*registryv1.WriteOperation) {
	if len(operations) == 0 {
		return
	}
	describeKey(o, kinds.OperationOf(operations[0]).Key)
	o.Objects = severalOf(len(operations))
}

// describeKey describes an object by its key.
func describeKey(o *audit.Object, key object.Key) {
	o.Kind, o.Namespace, o.Name = key.Kind, key.Namespace, key.Name
}

// describeClaims describes the owners of claims.
func describeClaims(o *audit.Object, sets []*allocatorv1.ClaimSet) {
	if len(sets) == 0 {
		return
	}
	owner := sets[0].GetOwner()
	o.Kind, o.Namespace, o.Name, o.UID = owner.GetKind(), owner.GetNamespace(), owner.GetName(), owner.GetUid()
	o.Objects = severalOf(len(sets))
}

// describeOwners describes the owners of values.
func describeOwners(o *audit.Object, owners []*allocatorv1.OwnerSlots) {
	if len(owners) == 0 {
		return
	}
	o.UID, o.Objects = owners[0].GetOwnerUid(), severalOf(len(owners))
}

// severalOf returns a number of objects, or 0 if it is one.
func severalOf(number int) int {
	if number == 1 {
		return 0
	}
	return number
}
