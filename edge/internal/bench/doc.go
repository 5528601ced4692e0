// Package bench measures an edge beside HAProxy: `make bench-edge`.
//
// Both proxies run as processes of their own and have the same backends. The backends and the load are in the process
// of the test. Only the CPU time of the proxies is compared, because on a small machine the load takes most of the
// remaining CPU time. Each figure is the median of several rounds in which the proxies take turns,
// so that other load of the machine affects both alike.
package bench
