// Package traffic has the metrics of the traffic and the dropped packets of each service port, as
// counted by a data plane in the kernel.
//
// A collector reads the kernel at each scrape, and at no other time, so traffic that is not watched
// costs nothing. The alternative, a reading at intervals, would cost the same on a node that is not
// scraped. The kernel's counters end with its servers, and restart with its packet filter, so the
// increases between two scrapes are added up here.
//
// The invariant: a sum never decreases while its service port exists, because Prometheus would take
// that for a restart.
package traffic
