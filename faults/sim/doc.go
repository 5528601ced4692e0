// Package sim runs daemons in virtual time. Messages arrive late, out of order, twice or never. At
// rest, the package checks that the daemons have reached the right state. A schedule of some
// seconds takes milliseconds.
//
//	go test ./faults/sim                                          a fixed set of schedules, as in make test
//	go test ./faults/sim -run TestEndpoints -args -for 5m -seed 7 schedules 7, 8, 9, … for five minutes
//	go test ./faults/sim -run TestEndpoints -args -seed 7 -loud   one schedule, with the daemons' logs
//	make bugs                                                     check that deliberate bugs (testdata/bugs) are found
//
// # Real and simulated parts
//
// The daemons are complete and unchanged, with their New and Run functions, follower, relay, queue,
// lease and the NATS client library. These parts are simulated:
//
//   - NATS: package services/changes/broker is a NATS server in memory. The client library reaches
//     it over a pipe.
//   - gRPC: package network executes calls in interceptors of the connections that daemons dial.
//   - The registry: package registry is a model of its contract.
//   - The links: package netem decides the fate of each message.
//
// Each schedule runs in a bubble of testing/synctest. Time passes there only when all goroutines
// wait.
//
// TestShards is TestEndpoints with services that are divided into shards: the model of the registry
// reports a controller that writes for a shard of another one.
//
// TestAllocations has no model of the registry. Two complete registries on one database, and the
// complete allocator with its verifier, call each other through gRPC's own servers and clients over
// pipes (network.Mesh). Only the fate of each request and reply is simulated, and the stores
// (package stores): a database and a disk in memory. They keep committed writes when a daemon dies,
// and lose all others. The group commits, and the rules for the outcome of a batch, are the real
// ones. The daemons get their stores through NewOn, which New calls, too.
//
// TestAgents has complete node agents, each on a machine in memory (package machine). The agent's
// view, plans and data plane are the real ones, down to the operations of the load balancer. An
// agent may die between any two of these operations. At each operation the test checks that every
// server follows the sequence of its plans: its backends lie between two successive plans, it never
// returns to an earlier plan, and new backends are added before old ones are removed. Draining
// backends keep their connections for the whole drain timeout, also across restarts. The plans come
// from plan.Build, which has its own tests.
//
// An alternative design was considered: an interface for the transport of messages in
// services/changes and in each daemon, and pure state machines that one loop drives step by step.
// That design would not cover the interaction between the state machines. Finding A of "Right under
// churn" was such an interaction: the order in which a reply and its echo on the stream reach two
// goroutines of a daemon. It would also require splitting the daemons. The design used here needs
// few changes of the daemons: app.Host already had a network and a NATS connection, and the NATS
// client accepts a custom dialer. Some daemons got NewOn. The lock of the allocator's engine became
// a channel, because the engine holds it while the store writes, and a bubble's time does not pass
// while a goroutine waits for a sync.Mutex.
//
// # Speed
//
// One core of a shared machine runs about 100 schedules of TestStream in a second, 70 of
// TestEndpoints, 60 of TestMoves, 45 of TestAllocations and 40 of TestAgents. A schedule starts and
// stops a few complete daemons, and kills and restarts some of them. More than a quarter of its
// time is spent on allocating and collecting memory for connections, queues and messages. The
// remaining time is distributed over the NATS and gRPC libraries, goroutine stacks and switches,
// JSON and the daemons. Optimizing any single function in the profile would not make it twice as
// fast.
//
// Thousands of schedules in a second are possible only without goroutines. Tests in other modules
// drive single parts step by step in this way: the follower in TestWhateverTheStreamDoes of
// services/changes (3,900 schedules in a second), the index in
// TestTheIndexEndsWithWhatTheStreamSays of endpointctl/internal/index, slices in
// TestPackReachesWhatIsWanted of endpointctl/internal/packing, names in
// TestChangesLeaveNothingBehind of dnssvc/internal/zone, and values in TestBookAndStoreAgree of
// allocator/internal/engine. No package drives these parts together, because it would need exported
// steps of the follower. Only the simulations here cover the interaction of the parts.
//
// # Repeating a failure
//
// A seed determines a schedule: the writes of clients with their times, the restarts of daemons and
// the impairments of links. The fate of the nth message of a link depends on the seed, the link and
// n. The order of goroutines that are ready at the same instant, the order of maps, and the random
// pauses of daemons are not repeatable. So a failing schedule usually fails again, but not always.
// For this reason replaying and shrinking run each schedule up to three times, and all tests run on
// one processor.
//
// Shrinking leaves out events while the schedule still fails (see shrink). The package does not use
// pgregory.net/rapid for generating and shrinking, because rapid considers a property that fails
// only sometimes flaky, and gives up.
package sim
