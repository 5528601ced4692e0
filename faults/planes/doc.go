// Package planes checks node agents at any time: the content of each data plane must be the plan of
// the revision that the agent reports.
//
// A Watcher periodically reads the revision that an agent reports, the agent's plan, the content of
// the kernel, and the revision again. The kernel is read independently of the agent's process: the
// maps of nftables over netlink and with the program nft, and the sockets of the userspace plane
// from the namespace's table of sockets. The Checker compares each reading with the registry's log.
//
// Changes continue during a reading. So a reading has the revisions before and after it, and the
// Checker demands:
//
//   - A frontend that the log did not change in between must be exactly as at that revision.
//   - A frontend that the log changed in between has at least the backends that it had all the
//     time, and at most the backends that it had at some time.
//
// It would be simpler to use only readings with one revision. But under load the revision changes
// some hundred times a second, so nearly no reading of a healthy agent would be left.
//
// The Checker permits differences in these cases: a service that the agent reports as failing; a
// frontend that several services claim, which may show the backends of any of them; servers and
// backends that drain, which take no new connections; and, after a restart, frontends that are no
// longer planned, until the agent has a view from the registry and has applied it.
package planes
