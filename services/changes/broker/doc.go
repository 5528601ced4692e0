// Package broker is a NATS server in memory with the features that the change stream uses:
// subjects, inboxes, headers, and one JetStream stream with expected sequences and republished
// messages. Clients use the library nats.go, over a pipe instead of a socket, so that daemons run the
// same code and exchange the same bytes. `portolan dev` and the simulation use it.
//
// It does not listen on a port, checks no permissions and stores no data on disk: after a restart the
// relay makes the stream anew, as it does for any lost stream. The invariant is the same as for a real
// server: a message is in the stream, and at its subscribers, only with the sequence that its publisher
// expected.
//
// A real server keeps the order of the messages of one connection. Under a [Network] a message may
// overtake others.
//
// The alternative is an interface in services/changes that has this as its second implementation.
// It would be faster. But it would leave out the client library, and its queues, reconnects and
// acknowledgements are the source of most trouble. The embedded nats-server that `portolan dev` ran
// before took an eighth of the time to build the command line. The simulation cannot use it, because it
// has real sockets, files and goroutines that outlive a bubble of testing/synctest.
package broker
