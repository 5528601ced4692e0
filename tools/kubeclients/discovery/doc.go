// Command discovery runs the service discovery of a Prometheus configuration, by the packages of
// Prometheus that do so, and scrapes nothing. The tests of kubeapi run it, because Debian builds its
// Prometheus without the discovery of Kubernetes, and the whole Prometheus takes minutes to build.
//
//	discovery prometheus.yml
//
// After each change it prints the targets of all jobs as one line of JSON: a list of the labels of each
// target, by the names of the jobs. SIGTERM ends it.
package main
