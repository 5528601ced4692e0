// Package dev runs a whole installation in one process: every daemon, an embedded store, a
// NATS server in memory and the userspace data plane. It uses loopback addresses only, needs no
// root, and writes only to its data directory.
//
// The daemons talk over their APIs and the change stream as they do on separate machines. Only the
// transport differs: pipes instead of sockets, see rpc.Memory. Their APIs also listen on TCP, so
// that every client works. Calling the daemons' Go code directly would start a little faster, but
// would be a second way of operation that only laptops use.
//
// Other users of the machine reach the TCP ports too. So the APIs and the metrics answer only
// clients that send the token in the data directory, which only the user of the process can read.
// Package token explains why it is a token. Profiles and the log level are not served. The command
// line finds the token by itself, and clients of Kubernetes find it in a kubeconfig file. Health,
// reflection, the name server, and the services themselves are open to every user of the machine, as
// programs on loopback are in general. The token does not protect from denial of service: any user of the
// machine can open connections until no more are accepted.
//
// The data plane listens only in the range of the virtual IPs, and on the daemons' address for node
// ports. An external IP or a load balancer's address that belongs to the machine would otherwise
// open a service of a laptop to its network.
package dev
