// Package audit writes the audit log of a daemon: one line of JSON for each call that changes
// something, that is refused, or that reads everything, with the caller, its address, the object
// and the outcome.
//
//	log, err := audit.Open(audit.Options{Path: path, Daemon: "registry", …})
//	log.Record(&audit.Entry{Identity: "nodeagent/n1", Method: method, Code: "PERMISSION_DENIED"})
//	defer log.Close()
//
// The invariants: Record never waits for the disk and never fails; waiting lines take at most 4
// MiB, and the files MaxBytes×(Keep+1); every line that is missing is counted, in the metric
// portolan_audit_dropped_total and in a line of the log itself; and a line is valid JSON in
// printable ASCII for any text that a caller sends. An Entry has no field for the content of an
// object, a request or a response, so no line can have an environment, an annotation or a status.
// The text of an error may quote fields, so callers pass apierr.Summary instead.
//
// # Recorded calls
//
// Kubernetes has four levels (None, Metadata, Request, RequestResponse), chosen by a policy with
// rules for users, verbs and resources, and three stages of each request. The levels above Metadata
// record bodies, so a policy must exempt Secrets by name, and an audit log of a cluster is worth
// protecting like its store. Portolan has one level, which is Metadata, at one stage, the end of
// the call. It has no policy, because a missing rule would make the log incomplete, which is found out
// only after an incident. The content of an object at a revision is in the change log and in backups,
// and the line has the revision. Policies mostly leave out reads. Here reads are left out by default,
// and one setting records them.
//
// A bulk call (BulkService) has a line for each of its operations, with the method that would have made
// the same write alone. So one search finds the deletions of an object by both kinds of calls.
//
// A line is written when its call ends. A stream's line therefore comes at the end of the stream.
// gRPC itself refuses compressed requests and requests of more than the largest message before it
// calls any code of ours; these are not recorded. Failed TLS handshakes are no calls: the daemon's
// own log and portolan_tls_refused_connections_total have them.
//
// # The queue
//
// Lines wait in one buffer of bytes. 50 ms after the first line, a goroutine takes the whole buffer
// and writes it at once. Writing each line immediately would cost a wake-up of that goroutine and a
// system call for each line, which is more than all other costs of a line together. A killed process
// loses the lines of these 50 ms. A process that ends in order writes them. The buffer is limited in
// bytes. If it is full, lines are dropped. The alternatives are calls that wait for the disk, so that a
// full disk stops the installation, and memory without a bound.
//
// A caller can make failing calls at no cost, and their lines could push the history out of the log.
// Therefore one certificate, or one address without certificates, gets 100 lines of failed calls at once
// and 5 per second after that. Further lines are counted as dropped. Successful calls are always
// recorded. The registry limits the number of writes of an agent or a workload.
//
// # Files
//
// lumberjack (gopkg.in/natefinch/lumberjack.v2) rotates by size too. It was not used for three reasons.
// If the disk is full in the middle of a line, it leaves half a line behind. It does not notice that
// logrotate has moved its file. And its goroutine never ends. Here the file is cut back to its last whole
// line. Before a write, at most once a second, it is compared with the file at its path, so that
// logrotate needs neither a signal nor copytruncate.
package audit
