// Package ipvs is the data plane in the kernel's IPVS.
//
// A virtual server of a plan is a virtual service of the kernel at the same address and port. If
// internal and external clients have different backends, external clients are sent to a stand-in
// address that has a service of its own. IPVS itself does not match sources, and packet marks do
// not translate ports if clients have affinity. Package kernel does everything else.
//
// The kernel is reached with github.com/moby/ipvs: services, destinations and timeouts are its
// types, and its Handle does single changes, reads, and timeouts. A connection consists of a Handle
// and of package batch, which encodes many changes from the same types. A session runs the calls of
// a connection with time limits. The alternative, a client of our own that extends the library's types, would
// also solve the problems below, but would repeat messages that the library has. This package adds to the
// library:
//
//   - Many changes. The Handle sends one message and waits, which makes a full load 3 to 14 times as
//     long as the messages themselves need: see batch, and TestMeasure. For a single change it takes
//     0.08 ms more than a batch of one, in the emulated kernel.
//   - Time limits. The Handle waits for ever for an answer that does not come: it ignores the
//     timeout of its socket. session abandons the call, and opens a new connection.
//   - Results of changes with lost answers: session finds them out.
//   - Counters of 64 bits. The Handle has 32 bits for packets, which overflow within the hour.
//   - The backends of all servers. The Handle takes 64 KiB of new memory for each answer and copies the
//     counters of each backend, so ten thousand servers take twice as long: see batch. The kernel's list in
//     /proc would be faster still, but it has no thresholds, and it omits servers if other network
//     namespaces have servers too.
//   - A kernel without IPVS. The library looks up the number of IPVS once in a process, runs
//     modprobe for it, and logs failures with logrus. So batch, which has no such state, is opened
//     first. If the module is loaded again while the process runs, the process must be started
//     again. The kernel keeps the module as long as there are servers.
//   - Names of the flags of services.
//
// The kernel's dh is not used. It hashes an address to one of all backends, and refuses the connection
// if that backend has weight 0. A backend that drains has weight 0, and it cannot leave the table before
// its connections have ended: the kernel drops the packets of connections to a removed backend, and with
// expire_nodest_conn it also forgets the connections. A second service, by packet mark or at a stand-in,
// cannot take them over, because a connection belongs to the entry of a backend in one service. Instead,
// the plane hashes the address to a backend that is ready, which becomes the heaviest, and the kernel's
// scheduler fo uses the heaviest backend. All nodes choose the same one, and a change moves only the
// addresses that it has to. The scheduler rr, with weight 0 for all other backends, would do without the
// module ip_vs_fo, but would end the affinity of clients with backends that are ready.
//
// Invariant: another value of any property of a server or backend that the library reads is a difference, which
// an audit and the next process find. A property that is the same for all servers, such as the forwarding
// method, is compared too (Altered in package kernel).
//
// Neither the Handle nor batch checks whether a list has changed while it was read (NLM_F_DUMP_INTR). That is
// no loss, because for IPVS the kernel does not report it.
package ipvs
