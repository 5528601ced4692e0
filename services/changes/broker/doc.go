// Package broker is a NATS server in memory with the features that the change stream uses:
// subjects, inboxes, headers, and one JetStream stream with expected sequences and republished
// messages. Clients are the real ones of nats.go, over a pipe instead of a socket, so that the code
// of the daemons is the same, down to the bytes. `portolan dev` runs it, and the simulation does.
//
// It listens nowhere, checks no permissions and keeps nothing on disk: after a restart the relay
// makes the stream anew, as it does for any stream that was lost. The invariant is that of the real
// server: a message is in the stream, and at its subscribers, only with the sequence that its
// publisher expected.
//
// Under a [Network] the order of one connection, which a real server keeps, is given up where a
// message overtakes others.
//
// The alternative is an interface in services/changes that has this as its second implementation.
// It would be faster. But it would leave out the client library, and its queues, reconnects and
// acknowledgements are the source of most trouble. The embedded nats-server that `portolan dev` ran
// before is an eighth of the time that the command line took to build. In the simulation it does
// not fit at all: it has real sockets, files and goroutines that outlive a bubble of
// testing/synctest.
package broker
