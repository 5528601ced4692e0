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
// in the metric portolan_edge_access_log_dropped_total; a line is printable ASCII without a line end,
// whatever the client has sent; and no file is outside of the base directory, whatever the annotations
// of the service say.
//
// # Files
//
// A file is called DIRECTORY/PREFIX/NAMESPACE_SERVICE_NODE_START.log below the base directory, with
// the start of its interval in UTC. The records in it are those that finished in the interval, because a
// connection may begin many intervals before its end is known. While the interval lasts, the name
// ends in .part, so that a program that collects the files takes only those that will not change.
// When the interval ends, and when the service or the edge stops, the file gets its final name. If
// there is a file with that name, because the edge was restarted in the interval, the new one gets
// a number at the end of its name. An edge that was killed leaves its files with .part; the next
// one of the same node cuts them back to their last whole line and gives them their final names.
//
// # One writer for all services
//
// One goroutine writes the lines of all services, so a service costs memory only while lines wait,
// and an open file only in intervals in which it has had a record. A goroutine and a timer for each
// service would cost the same for services without traffic. All files are on one disk in general,
// so several writers would not be faster.
package accesslog
