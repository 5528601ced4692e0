// Package sim runs daemons in virtual time, with messages that arrive late, out of order, twice or
// never. At rest, it checks that the daemons have reached the right state. A schedule of some
// seconds takes milliseconds.
//
//	go test ./faults/sim                                          a fixed set of schedules, as in make test
//	go test ./faults/sim -run TestEndpoints -args -for 5m -seed 7 schedules 7, 8, 9, … for five minutes
//	go test ./faults/sim -run TestEndpoints -args -seed 7 -loud   one schedule, with the daemons' logs
//	make bugs                                                     whether deliberate bugs (testdata/bugs) are found
//
// # What is real
//
// The daemons are whole and unchanged: their New, their Run, the follower and the relay, the queue,
// the lease, the NATS client library. The simulated parts lie on both sides of the wire: package
// services/changes/broker is a NATS server in memory, which the client library reaches over a pipe;
// package network answers gRPC calls by an interceptor of the connection that the daemon dials;
// package registry is a model of the registry's contract. Package weather decides about each
// message. All of it runs in a bubble of testing/synctest, where time passes only when all
// goroutines wait.
//
// TestAllocations has no model of the registry: two whole registries on one database, and the whole
// allocator with its verifier, call each other through gRPC's own servers and clients over pipes
// (network.Mesh). Only the weather of each request and response is simulated there, and the stores
// (package stores): a database and a disk in memory that keep committed writes when a daemon dies,
// and lose all others. The group commits, and the rules by which a batch is decided, are the real
// ones. The daemons get their stores from NewOn, which New calls too.
//
// TestAgents has whole node agents, each on a machine in memory (package machine): the agent's
// view, plans and data plane are the real ones, down to the operations of the load balancer,
// between any two of which an agent may die. At each of these operations the test checks that every
// server follows the sequence of its plans: its backends lie between two successive plans, it never
// returns to an earlier plan, and new backends are added before old ones are removed. Backends that
// drain keep their connections for as long as they may, over restarts, too. The plans are those of
// plan.Build, which has tests of its own.
//
// The other design that was considered is an interface below which messages travel, in
// services/changes and in each daemon, and pure state machines that one loop drives step by step.
// It would leave out the interaction between the state machines, where finding A of "Right under
// churn" was: the order in which an answer and the stream's echo of it reach two goroutines of a
// daemon. And the daemons would have to be taken apart for it. The seams that are used here were
// there: app.Host has a network and a NATS connection, and the NATS client accepts a custom dialer.
// Some daemons have got NewOn for it, and the allocator's engine a lock that is a channel: a
// bubble's time stands still while a goroutine waits for a sync.Mutex, and this lock is held while
// the store writes.
//
// # Speed
//
// One core of a shared machine runs about 100 schedules of TestStream in a second, 70 of
// TestEndpoints, 60 of TestMoves, 45 of TestAllocations and 40 of TestAgents. A schedule starts a
// few whole daemons, stops them, and lets some of them die and start again. More than a quarter of
// its time is memory for connections, queues and messages, and collecting it; the rest is spread
// thin over the NATS and gRPC libraries, the stacks and switches of goroutines, JSON and the
// daemons themselves. No function in the profile is worth a factor of two.
//
// Thousands of schedules in a second need parts without goroutines. Those are driven step by step
// in their own modules: the follower by TestWhateverTheStreamDoes of services/changes (3,900
// schedules in a second), the index by TestTheIndexEndsWithWhatTheStreamSays of endpointctl/internal/index,
// slices by TestPackReachesWhatIsWanted of endpointctl/internal/packing, names by
// TestChangesLeaveNothingBehind of dnssvc/internal/zone, and values by TestBookAndStoreAgree of
// allocator/internal/engine. A package that drives them together would need the steps of a follower
// exported, which only its own tests can reach, so there is none. No such test covers the
// interaction of the parts, which the simulations here do.
//
// # Repeating a failure
//
// A schedule is drawn from its seed: the writes of clients and their times, which daemons end, when
// the weather is bad. The weather decides about the nth message of a link from the seed, the link
// and n. Not repeatable are the order of goroutines that are ready at the same instant, the order
// of maps, and the random pauses of the daemons. So a schedule that fails mostly, but not always,
// fails again: replaying and shrinking run each schedule up to three times. To keep the chance
// small, tests run on one processor.
//
// Shrinking leaves out events while the rest still fails (see shrink). pgregory.net/rapid, which
// the module could have used for drawing and shrinking, takes a property that fails only sometimes
// for flaky and gives up.
package sim
