// Package accesslog writes the access logs of services: one line for each finished connection
// (layer 4) or request (layer 7), in files that belong to one service and one interval of time.
//
//	logs, err := accesslog.New(accesslog.Options{Dir: dir, Node: node, …})
//	log, err := logs.Open(accesslog.Target{Namespace: "shop", Service: "web", Interval: time.Hour})
//	log.Record(&accesslog.Record{Time: begun, Client: client, …})
//	log.Close()
//	logs.Close()
//
// The invariants: Record never waits for the disk and never fails; lines that wait take at most
// maxWaiting bytes for one service and maxWaitingTotal for all; every line that is missing is counted
// in the metric portolan_edge_access_log_dropped_total. No text of a client can put a line end or other than
// printable ASCII into a line, and no annotation of a service can put a file outside of the base directory.
//
// # Files
//
// A file is called DIRECTORY/PREFIX/NAMESPACE_SERVICE_NODE_START.log below the base directory, with
// the start of its interval in UTC. It has the connections and requests that ended in the interval, because a
// connection may begin many intervals before its end is known. While the interval lasts, the name
// ends in .part, so that a program that collects the files takes only finished files.
// When the interval ends, and when the service or the edge stops, the file gets its final name. If
// a file has that name already, because the edge was restarted in the interval, the new file gets
// a number at the end of its name. An edge that was killed leaves its files with .part. The next
// edge of the same node cuts them back to their last whole line and gives them their final names.
//
// # One writer for all services
//
// One goroutine writes the lines of all services, so a service costs memory only while lines wait,
// and an open file only in intervals in which it has had a record. A goroutine and a timer for each
// service would cost the same for services without traffic. All files are on one disk in general,
// so several writers would not be faster.
package accesslog
