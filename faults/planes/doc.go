// Package planes checks node agents at any time: the content of each data plane must be the plan of
// the revision that the agent reports.
//
// A Watcher periodically reads the revision that an agent reports, the agent's plan, the content of
// the kernel, and the revision again. The kernel is read independently of the agent's process: the
// maps of nftables over netlink and with the program nft, and the sockets of the userspace plane
// from the namespace's socket tables. The Checker compares each reading with the registry's log.
//
// Changes continue during a reading. Therefore a reading has the revisions before and after it, and
// the Checker demands:
//
//   - If the log does not change a frontend in between, its content must be exactly as at that
//     revision.
//   - If the log changes a frontend in between, it must have at least the backends that are planned
//     at all of these revisions, and at most the backends that are planned at any of them.
//
// It would be simpler to use only readings in which the revision did not change. But under load the
// revision changes some hundred times a second, so nearly all readings of a correct agent would be
// lost.
//
// The Checker permits differences in these cases: a service that the agent reports as failing; a
// frontend that several services claim, which may have the backends of any of them; servers and
// backends that drain, which receive no new connections; and, after a restart, frontends that are
// no longer planned, until the agent has a view from the registry and has applied it.
package planes
