// Package planes checks what node agents have in force, at any time: the content of each data plane must be the
// plan of the revision that the agent reports.
//
// A Watcher reads, again and again, the revision that an agent reports, what the kernel has, what the agent says
// of its plan, and the revision again. What the kernel has is read by other means than the agent's own: the maps of
// nftables by the program nft, the sockets of the userspace plane from the namespace's table of sockets. The
// Checker compares each reading with the registry's log.
//
// Reading takes a while, and changes go on. So a reading has the revisions before and after it, and the Checker
// demands what follows from them:
//
//   - What the log did not change in between must be exactly as at that revision.
//   - Of a frontend that the log changed in between, the backends are at least those that it had all the time, and
//     at most those that it had at some time.
//
// Taking only readings with one revision would be simpler. But under load the revision changes some hundred times
// a second, and nearly no reading would be left of a healthy agent.
//
// An agent may show other things in these cases, which the Checker leaves out: a service that the agent reports as
// failing; a frontend that several services claim, which may show the backends of any of them; servers and backends
// that drain, which take no new connections; and, after a restart, frontends that nobody wants any more, until the
// agent has heard of the registry and has applied what it heard.
package planes
