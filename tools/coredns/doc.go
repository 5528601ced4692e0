// Command coredns is CoreDNS with its kubernetes plugin and what a test needs besides. The tests of
// kubeapi compare its answers with those of dnssvc. Without the other plugins, which link the clients of
// several clouds, it builds in a quarter of the time.
package main
