// Command discovery runs the service discovery of a Prometheus configuration with Prometheus' own packages.
// It scrapes nothing. The tests of kubeapi run it, because Debian's Prometheus lacks the discovery of
// Kubernetes, and a whole Prometheus takes minutes to build.
//
//	discovery prometheus.yml
//
// After each change it prints one line of JSON: an object with, for the name of each job, the list of its
// targets, each as an object of labels. SIGTERM ends it.
package main
