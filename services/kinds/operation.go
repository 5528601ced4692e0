package kinds

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Operation is the write of an operation of BulkService.
type Operation struct {
	// Kind is the kind of the object. It is nil if the operation has no write or no object of a known
	// kind.
	Kind *Kind
	// Verb is the verb of the method that makes the same write. It is empty for an apply.
	Verb Verb
	// Object is the object of the operation. It is nil for a deletion.
	Object object.Object
	// Key is the key of the object. Its namespace is the default one if the operation has none. Its
	// name is empty if the registry generates it.
	Key object.Key
}

// OperationOf returns the write of an operation.
func OperationOf(operation *registryv1.WriteOperation) Operation {
	switch write := operation.GetWrite().(type) {
	case *registryv1.WriteOperation_Create:
		return operationOn(Create, write.Create)
	case *registryv1.WriteOperation_Update:
		return operationOn(Update, write.Update)
	case *registryv1.WriteOperation_UpdateStatus:
		return operationOn(UpdateStatus, write.UpdateStatus)
	case *registryv1.WriteOperation_Apply:
		return operationOn("", write.Apply)
	case *registryv1.WriteOperation_Delete:
		return deletionOf(write.Delete)
	}
	return Operation{}
}

func operationOn(verb Verb, envelope *corev1.Object) Operation {
	o := object.Unwrap(envelope)
	if o == nil {
		return Operation{Verb: verb}
	}
	kind := Of(o)
	return Operation{Kind: kind, Verb: verb, Object: o, Key: kind.key(o.GetMetadata().GetNamespace(), o.GetMetadata().GetName())}
}

func deletionOf(deletion *registryv1.DeleteOperation) Operation {
	kind, known := Named(deletion.GetKind())
	if !known || kind.Name != deletion.GetKind() {
		return Operation{Verb: Delete}
	}
	return Operation{Kind: kind, Verb: Delete, Key: kind.key(deletion.GetNamespace(), deletion.GetName())}
}

// key returns the key of an object of the kind.
func (k *Kind) key(namespace, name string) object.Key {
	if k.Namespaced && namespace == "" {
		namespace = object.DefaultNamespace
	}
	return object.Key{Kind: k.Name, Namespace: namespace, Name: name}
}

// Method returns the full name of the method that makes the same write. It returns "" if there is
// none.
func (o Operation) Method() string {
	if o.Kind == nil {
		return ""
	}
	if o.Verb == "" {
		return registryv1.ApplyService_Apply_FullMethodName
	}
	return o.Kind.FullMethod(o.Verb)
}

// FullMethod returns the full name of the method of a verb, as gRPC calls it. It returns "" if the kind
// has no such method.
func (k *Kind) FullMethod(verb Verb) string { return fullNames[k][verb] }

// fullNames has the full names of the methods that kinds have.
var fullNames = func() map[*Kind]map[Verb]string {
	all := make(map[*Kind]map[Verb]string, len(All))
	for _, kind := range All {
		names := map[Verb]string{}
		for _, verb := range []Verb{Create, Get, List, Watch, Update, UpdateStatus, Delete} {
			if verb != UpdateStatus || kind.HasStatus() {
				names[verb] = fmt.Sprintf("/portolan.registry.v1.%s/%s", kind.ServiceName(), kind.Method(verb))
			}
		}
		all[kind] = names
	}
	return all
}()
