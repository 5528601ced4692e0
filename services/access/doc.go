// Package access holds all permissions of the roles, for all daemons:
//
//   - methods.go: the gRPC methods that a role may call. The roles of a kind's methods are in the
//     kind's row, in package kinds.
//   - objects.go: the objects that a role may write, and their fields.
//   - reads.go: the objects that a role may read, by whatever method.
//   - namespaces.go: the operators and viewers of one namespace, and the namespaces of requests.
//   - workload.go: the pods that are the own ones of a workload or a registrar, which it may write and
//     read.
//   - registrar.go: what a registrar may create besides its pods, and what it may read.
//   - bulk.go: the operations of bulk calls.
//   - behalf.go: the calls that kubeapi may make on behalf of its clients.
//   - review.go: the answer to a client that asks what it may do.
//   - subjects.go: the NATS subjects that a role may publish and subscribe to.
//   - allocations.go: the values that lbctl may claim, confirm and release at the allocator.
//   - http.go: who may read a daemon's metrics and health over HTTP.
//
// The invariant for methods: a method that is not in the table cannot be called, and a server does
// not start if its methods and the table's rows for its services differ. A new method therefore
// needs a row with its roles.
//
// The invariant for objects: a node agent changes only objects of its own node, and a controller
// does not change objects of people or of other controllers. The endpoint controller's own slices
// and Endpoints have its label, which people cannot set while the service has a selector, and its
// Leases have its name. The allocator deletes the Leases by which registries fence the values that
// it has granted them in advance ([spec.IsReserveLease]), and no others. The stored object decides,
// not the object in the request. The registry therefore applies the limit within the write, to the
// version that the write replaces, and not before it.
//
// A workload's own pods are on its node, in its namespace, and have an annotation with its identity
// from their creation on. A workload cannot create a pod with the identity of another workload, and
// cannot add its own identity to a pod that exists. Of the other roles only operators create pods.
// Node and namespace alone do not identify a workload's pods, because a workload could then delete
// an operator's pods on its machine. The managers of fields do not identify them either, because
// clients choose the names of managers. A workload chooses the labels of its pods, so it can become
// a backend of every service of its namespace.
//
// A registrar registers the containers and units of a node as pods, so it has pods of its own by the same
// rules. It differs from a workload in three things. It follows the log, because it compares its pods and
// the services with what runs on its node. It creates Services on demand, and if it is bound to no
// namespace, Namespaces. These have its annotation, so that everybody sees who made them, and are such
// that they take no traffic but that to a virtual IP which the allocator chooses: no load balancer, node
// port, external IP, address or class. It does not change or delete them, because from then on they are
// their readers' and their operator's: another node's registrar may use the same service. The number that
// one registrar has created is limited at the registry. And its pods may have addresses in the pod ranges
// of its Node, which only an operator sets, because containers have addresses of their own.
//
// With operator/NAMESPACE as its certificate a registrar could do the same without a role. But whoever
// took a node's key would lead the services of the namespace anywhere, and a registrar of all namespaces
// would be an operator of everything. The folder of manifests that a registrar applies needs the rights of
// an operator, so it has a certificate of its own, on those nodes that somebody gave one.
//
// Reads have one limit for Get, List, Watch, snapshots and the log. An object beyond it does not
// exist for the caller: Get returns NOT_FOUND whether it exists or not, so that a caller cannot find
// names by guessing, and the log has its revision without its contents. A creation still fails with
// ALREADY_EXISTS if the name is taken.
//
// The agent of a node reads all Services and EndpointSlices, because every node forwards to every
// service, all Revocations, because its own API refuses what is revoked, and of Pods and Nodes its
// own. A registrar reads its own pods, its Node, Revocations, and the Services and Namespaces in which it may
// register pods, and nothing of other nodes. NATS has no such limit: followers find lost messages by gaps between revisions, so each of
// them receives all changes. An agent's certificate therefore hears of every change: namespaces,
// Nodes, Leases, Events, and pods with their names, labels, nodes and addresses, most of which
// slices publish too. The stream leaves out what may be secret: a pod with an environment, a
// command, headers of a probe or annotations is in it as a revision with a name and a node only, a
// Secret as a revision with a name,
// and followers read the pod from the registry, within the limit.
//
// Objects of a private kind ([kinds.Kind]), which are Secrets and Tokens, do not exist for viewers and for
// daemons, except Secrets for edges, and Tokens for kubeapi. An edge reads Services, EndpointSlices, Nodes,
// Revocations, and Secrets that are certificates. It reads those of all services, because any edge may serve any service, and an address
// moves to another edge within seconds. It writes Events in its own name. A binding of edges to
// namespaces was rejected for now: somebody would have to write down which edge serves which service,
// and lbctl would have to move addresses by it.
//
// The certificates operator/NAMESPACE and viewer/NAMESPACE are bound to one namespace. They call the
// methods of kinds with namespaces and the few others in boundMethods; the default for a new method
// is that they do not. A request that names another namespace is refused before anything is looked
// up. A list or watch of all namespaces gives their own one, as it gives a workload its own pods,
// so that clients work without knowing who they are. They use no NATS. Leases they only read,
// because the leases of Portolan's controllers are in a namespace too. Bindings as objects in
// the registry, as Kubernetes has them, were rejected: the owner of the authority decides who gets
// a certificate anyway, a second source of truth could contradict it, a backup that is restored
// would bring back permissions that were taken away, and a check would depend on the registry's
// state in every daemon. To take permissions away, revoke the certificate.
//
// An operator of one namespace reports no addresses of load balancers, because every node takes the
// traffic for such an address. External IPs have ranges for the same reason.
//
// An operator of one namespace still chooses the addresses of the endpoints and the nodes of the
// pods in its namespace, so it can lead its own services to any address. Services of the namespace
// "default" are in the environment of all workloads.
//
// A bulk call (BulkService) gives no permission but to make many writes at once. Each of its
// operations is decided like the method that makes the same write: by the same row of the table,
// and by the same limits of objects and namespaces. So a bulk call cannot do what its caller could
// not do otherwise.
//
// Tokens, by which clients of kubeapi prove who they are, are written by operators of all namespaces only.
// The kind has no namespace, so that the rules above keep out everybody else, whichever method he tries,
// and kubeapi cannot write it on behalf of anybody. That an operator of one namespace makes tokens of this
// namespace was rejected: who gets in, the owner of the authority decides, for certificates too, and what
// an operator of one namespace gives away would be hard to take back from him.
//
// kubeapi makes calls on behalf of its clients (behalf.go). The registry takes the client's identity
// from the header [identity.BehalfHeader], and decides about the call and its object as if the client
// had called: by the table, the namespaces, the limits of reads and writes, the rates. kubeapi itself
// reads the log, for the watches that it serves, and writes nothing in its own name. It may represent
// operators, viewers and workloads only, and call only methods of kinds that Kubernetes has. So whoever
// holds its certificate can act as an operator on these objects, and can neither make a backup or a
// certificate, nor take back a revocation, nor call another daemon, nor act as one.
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
// not check before it starts that every method has a rule, and a daemon that forgets an interceptor
// serves everybody. A server with an identity and without an Authorizer does not start.
//
// Rules as options of the methods in the contract were rejected because they would spread the table
// over all files, and a reader could not see at a glance which methods a role may call.
package access
