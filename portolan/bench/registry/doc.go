// Command registry measures the registry as it runs in production, with the allocator, a Postgres that waits for its disk, and NATS, beside the yardsticks of
// the same machine at the same time: pgbench on the same Postgres and etcd. `make bench-registry` runs it; it ends with lines `ratio <name> <value>`.
//
// The one invariant: what is divided was measured in turns in the same run. The machine may be busy with other things, so that absolute figures
// swing by a factor; the load is printed with them. What is small beside that is measured as CPU time of the processes that do the work.
//
// It also measures what needs a commit in Postgres and another daemon: from the commit to the name server's answer, and to a
// connection through the node agent's nftables. It stands in this module because it runs what daemons may not import: a NATS
// server.
package main
