// Command coredns is CoreDNS with its kubernetes plugin and what a test needs besides. The tests of
// kubeapi compare its answers with those of dnssvc. The other plugins are left out, because the clients of
// several clouds come with them, which take minutes to build.
package main
