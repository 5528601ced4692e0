// Command registry measures the registry as it runs in production: with the allocator, a Postgres
// that waits for its disk, and NATS. It measures the yardsticks on the same machine at the same
// time: pgbench on the same Postgres, and etcd. `make bench-registry` runs it. Its last lines have
// the form `ratio <name> <value>`.
//
// The invariant is that both numbers of a ratio were measured in turns in the same run. The machine
// may have other load, which changes absolute figures by a factor; the load is printed with them.
// Effects that are small beside that are measured as CPU time of the working processes.
//
// It also measures the times that need a commit in Postgres and another daemon: from the commit to
// the name server's answer, and to a connection through the node agent's nftables. It is in this
// module because it runs a NATS server, which daemons may not import.
package main
