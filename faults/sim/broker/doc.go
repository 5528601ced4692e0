// Package broker is a NATS server in memory with the features that the change stream uses:
// subjects, inboxes, headers, and one JetStream stream with expected sequences and republished
// messages. Clients are the real ones of nats.go, over a pipe instead of a socket, so that the code
// under test is the daemons' own, down to the bytes.
//
// The weather decides about every message to a subscriber. The order of one connection, which a
// real server keeps, is given up only where the weather lets a message overtake others.
//
// The alternative is an interface in services/changes that the simulation implements. It would be
// faster. But it would leave out the client library, and its queues, reconnects and
// acknowledgements are the source of most trouble. The daemons would also carry an interface that
// has one implementation. An embedded nats-server does not fit at all: it has real sockets, files
// and goroutines that outlive a bubble of testing/synctest.
package broker
