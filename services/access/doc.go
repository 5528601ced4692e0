// Package access holds all permissions of the roles, for all daemons:
//
//   - methods.go: the gRPC methods that a role may call. The roles of a kind's methods are in the
//     kind's row, in package kinds.
//   - objects.go: the objects that a role may write, and their fields.
//   - subjects.go: the NATS subjects that a role may publish and subscribe to.
//
// The invariant for methods: a method that is not in the table cannot be called, and a server does
// not start if its methods and the table's rows for its services differ. A new method therefore
// needs a row with its roles.
//
// The invariant for objects: a node agent changes only objects of its own node, and a controller
// does not change objects of people or of other controllers. The stored object decides, not the
// object in the request. The registry therefore applies the limit within the write, to the version
// that the write replaces, and not before it.
//
// The framework of the servers, services/kit/rpc, does not import this package. It has an interface
// for its one question, rpc.Authorizer: whether the caller may call the method. A daemon passes
// Methods to its server. The interface has the context of the call and no request, so that a server
// can ask it as soon as it has the headers. An implementation may also count the calls of an
// identity and refuse some with RESOURCE_EXHAUSTED.
//
// The alternative was that each daemon passes interceptors to its server. They need no interface,
// but an interceptor of a unary call runs after the request was read and decoded, a server could
// not check before it starts that every method has a rule, and a daemon that forgets an interceptor
// serves everybody. A server with an identity and without an Authorizer does not start.
//
// Rules as options of the methods in the contract were rejected because they would spread the table
// over all files, and a reader could not see at a glance which methods a role may call.
package access
