// Command coredns is CoreDNS with the plugins kubernetes, bind and errors. The tests of kubeapi compare its
// answers with the answers of dnssvc. The other plugins are left out, because they link the clients of
// several clouds, which take minutes to build.
package main
