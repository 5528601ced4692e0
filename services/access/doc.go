// Package access holds all permissions of the roles, for all daemons:
//
//   - methods.go: the gRPC methods that a role may call. The roles of a kind's methods are in the
//     kind's row, in package kinds.
//   - objects.go: the objects that a role may write, and their fields.
//   - reads.go: the objects that a role may read, with any method.
//   - namespaces.go: the operators and viewers of one namespace, and the namespaces of requests.
//   - workload.go: the pods that belong to a workload or a registrar, which it may write and read.
//   - registrar.go: the Services and Namespaces that a registrar may create, and the objects that it may
//     read.
//   - bulk.go: the operations of bulk calls.
//   - behalf.go: the calls that kubeapi may make on behalf of its clients.
//   - review.go: reviews, by which a client of kubeapi asks whether it may make a call.
//   - subjects.go: the NATS subjects that a role may publish and subscribe to.
//   - allocations.go: the values that lbctl may claim, confirm and release at the allocator.
//   - http.go: the roles that may read a daemon's metrics and health over HTTP.
//
// The invariant for methods: a method that is not in the table cannot be called, and a server does
// not start if its methods and the table's rows for its services differ. A new method therefore
// needs a row with its roles.
//
// The invariant for objects: a node agent changes only objects of its own node, and a controller
// does not change objects of people or of other controllers. The endpoint controller's own slices
// and Endpoints have its label, which people cannot set while the service has a selector, and its
// Leases have its name. The allocator deletes the Leases by which registries fence their reserved
// values ([spec.IsReserveLease]), and no other objects. A rule checks the stored object that the write
// replaces, not only the object in the request. Therefore the registry applies the limit within the
// write.
//
// A workload's own pods are on its node, in its namespace, and have an annotation with its identity
// from their creation on. A workload cannot create a pod with the identity of another workload, and
// cannot add its own identity to a pod that exists. Of the other roles only operators create pods.
// Node and namespace alone do not identify a workload's pods, because a workload could then delete
// an operator's pods on its machine. The managers of fields do not identify them either, because
// clients choose the names of managers. A workload chooses the labels of its pods, so it can become
// a backend of every service of its namespace.
//
// A registrar registers the containers and units of a node as pods. The same rules define its own pods. It
// differs from a workload in three things. First, it follows the log, because it compares its pods and the
// services with the containers and units of its node. Second, it creates Services on demand and, if it is
// not bound to a namespace, Namespaces. Their annotation names the registrar. Such a Service takes traffic
// only at a virtual IP that the allocator chooses: it has no load balancer, node port, external IP, address
// or class. The registrar does not change or delete it, because registrars of other nodes may use the same
// Service. The registry limits the number of Services and Namespaces that one registrar creates. Third, its
// pods may have addresses in the pod ranges of its Node, because containers have addresses of their own.
// Only an operator sets these ranges.
//
// A registrar with the certificate operator/NAMESPACE would need no role of its own. But a thief of a
// node's key could then lead the services of the namespace to any address, and with the key of a registrar
// of all namespaces he would be an operator. The folder of manifests that a registrar applies needs the
// rights of an operator. The registrar uses a second certificate for it, on nodes that have one.
//
// Get, List, Watch, snapshots and the log have the same limit for reads. An object beyond the limit does
// not exist for the caller. Get returns NOT_FOUND whether the object exists or not, so that a caller
// cannot find names by guessing, and the log has the object's revision without its contents. A creation
// still fails with ALREADY_EXISTS if the name is taken.
//
// The agent of a node reads all Services and EndpointSlices, because every node forwards to every
// service. It reads all Revocations, because its own API refuses revoked certificates. It reads its own
// Node and the pods of its node. A registrar reads its own pods, its Node, Revocations, and the Services
// and Namespaces in which it may register pods. It reads no pods of other nodes.
//
// NATS has no such limit: followers find lost messages by gaps between revisions, so each of them
// receives all changes. Therefore an agent with its certificate receives every change: namespaces, Nodes,
// Leases, Events, and pods with their names, labels, nodes and addresses, most of which slices publish
// too. Contents that may be secret are not on the stream. The message of a pod with an environment, a
// command, headers of a probe or annotations has its revision, name and node only, and the message of a
// Secret has its revision and name only. Followers read such a pod from the registry, within the limit.
//
// Objects of a private kind ([kinds.Kind]), which are Secrets and Tokens, do not exist for viewers and for
// daemons, except Secrets for edges, and Tokens for kubeapi. An edge reads Services, EndpointSlices, Nodes,
// Revocations, and Secrets that are certificates. It reads the Secrets of all services, because any edge may
// serve any service, and an address moves to another edge within seconds. It writes Events in its own name.
// A binding of edges to namespaces was rejected for now: operators would have to configure which edge serves
// which service, and lbctl would have to move addresses accordingly.
//
// The certificates operator/NAMESPACE and viewer/NAMESPACE are bound to one namespace. Their holders may
// call the methods of kinds with namespaces and the methods in boundMethods. By default they may not call a
// new method. A request that names another namespace is refused before any object is looked up. A list or
// watch of all namespaces returns the objects of their own namespace, as it returns a workload its own
// pods, so that clients work without knowing their identity. They do not use NATS. They read Leases and do
// not write them, because the Leases of Portolan's controllers are in a namespace too.
//
// Bindings as objects in the registry, as Kubernetes has them, were rejected for four reasons. The owner of
// the authority decides about certificates anyway. A second source of truth could contradict the
// certificates. A restored backup would bring back permissions that were withdrawn. And a check would
// depend on the registry's state in every daemon. To withdraw permissions, revoke the certificate.
//
// An operator of one namespace may not report addresses of load balancers, because every node takes the
// traffic for such an address. For the same reason the registry admits external IPs
// only from configured ranges.
//
// An operator of one namespace still chooses the addresses of the endpoints and the nodes of the
// pods in its namespace, so it can lead its own services to any address. Services of the namespace
// "default" are in the environment of all workloads.
//
// The permission for a bulk call (BulkService) only allows many writes in one call. Each operation is
// checked like the method that makes the same write: by the same row of the table, and by the same limits
// of objects and namespaces. So a bulk call makes no write that its caller could not make alone.
//
// Only operators of all namespaces write Tokens, which prove the identity of kubeapi's clients. The kind
// has no namespace, so the rules above refuse all other roles, and kubeapi cannot write Tokens on behalf
// of a client. Tokens written by operators of one namespace were rejected, because the owner of the
// authority admits identities, as with certificates, and tokens that such an operator has handed out would be
// hard to withdraw.
//
// kubeapi makes calls on behalf of its clients (behalf.go). The registry takes the client's identity
// from the header [identity.BehalfHeader], and decides about the call and its object as if the client
// had called: by the table, the namespaces, the limits of reads and writes, the rates. kubeapi itself
// reads the log, for the watches that it serves, and writes no object in its own name. It may represent
// operators, viewers and workloads only, and call only methods of kinds that Kubernetes has. So a thief of
// its certificate can act as an operator on these objects. He cannot make a backup or a certificate, delete
// a revocation, call another daemon, or act as one.
//
// The alternative was that kubeapi decides alone and calls with the rights of an operator. But the
// limits of writes need the version that a write replaces, which only the registry has within the
// write, each caller would be the same one in the audit log and for the rates, and a mistake in kubeapi
// would give its clients everything. Forwarding the client's connection was impossible, because TLS
// ends at kubeapi.
//
// The framework of the servers, services/kit/rpc, does not import this package. It has an interface
// for its one question, rpc.Authorizer: whether the caller may call the method. A daemon passes
// Methods to its server. The interface has the context of the call and no request, so that a server
// can ask it as soon as it has the headers. An implementation may also count the calls of an
// identity and refuse some with RESOURCE_EXHAUSTED.
//
// The alternative was that each daemon passes interceptors to its server. They need no interface,
// but an interceptor of a unary call runs after the request was read and decoded, a server could
// not check before it starts that every method has a rule, and a daemon without the interceptor would
// serve every caller. A server with an identity and without an Authorizer does not start.
//
// Rules as options of the methods in the contract were rejected because they would spread the table
// over all files, and a reader could not see at a glance which methods a role may call.
package access
