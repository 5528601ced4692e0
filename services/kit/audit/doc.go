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
// printable ASCII, whatever the caller has sent. An Entry has no field for the content of an
// object, a request or a response, so no line can have an environment, an annotation or a status.
// The text of an error may quote fields, so callers pass apierr.Summary instead.
//
// # What is recorded
//
// Kubernetes has four levels (None, Metadata, Request, RequestResponse), chosen by a policy with
// rules for users, verbs and resources, and three stages of each request. The levels above Metadata
// record bodies, so a policy must exempt Secrets by name, and an audit log of a cluster is worth
// protecting like its store. Portolan has one level, which is Metadata, at one stage, the end of
// the call, and no policy: a log that anybody may have to search after an incident must not depend
// on a rule that somebody forgot. The content of an object at a revision is in the change log and
// in backups, and the line has the revision. What a policy would mostly be used for, to leave out
// reads, is the default; one setting records them too.
//
// A call that is many in one (BulkService) has a line for each of them, with the method that would
// have made the same write alone. Whoever looks for the deletion of an object finds it by the same
// words, however it was made.
//
// A line is written when its call ends. A stream's line therefore comes at the end of the stream.
// gRPC itself refuses compressed requests and requests of more than the largest message before it
// calls any code of ours; these are not recorded. Failed TLS handshakes are no calls: the daemon's
// own log and portolan_tls_refused_connections_total have them.
//
// # The queue
//
// Lines wait in one buffer of bytes. 50 ms after the first line, a goroutine takes the whole buffer
// and writes it at once. Writing each line immediately costs a wake-up of that goroutine and a
// system call for each, which is more than all the rest of a line. A process that is killed loses
// the lines of these 50 ms; one that ends writes them. The buffer is limited in bytes. A limit of
// lines as well would bound nothing else, because a waiting line takes its bytes and no more. If
// the buffer is full, lines are dropped: the alternatives are calls that wait for a disk, which
// lets a full disk stop the installation, and memory without a bound.
//
// Calls that fail cost their caller nothing. So that nobody with any certificate can push the
// history out of the log by being refused, one certificate, or one address without certificates,
// gets 100 such lines at once and 5 per second after that; the rest is counted as dropped. Calls
// that succeed are always recorded, and the registry limits how many of them an agent or a workload
// can make.
//
// # Files
//
// lumberjack (gopkg.in/natefinch/lumberjack.v2) rotates by size too. It was not used because a disk
// that is full in the middle of a line leaves half a line behind, it does not notice that logrotate
// has moved its file, its goroutine never ends, and what remains after a bound on whole lines is as
// much code as this package's file.go. Here the file is cut back to its last whole line, and once a
// second, before a write, compared with the one that has its name, so that logrotate needs neither
// a signal nor copytruncate.
package audit
