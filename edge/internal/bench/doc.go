// Package bench measures an edge beside HAProxy: `make bench-edge`.
//
// Both proxies run as processes of their own and have the same backends, which are in the process of
// the test, as is the load. Only the CPU time of the proxy is compared: on a small machine the load
// takes most of the rest. Each figure is the median of several rounds in which the proxies take turns,
// so that other load of the machine affects both alike.
package bench
