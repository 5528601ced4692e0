// Package parity implements Kubernetes' own end-to-end tests for Services (its test/e2e/network) as
// tests of Portolan. It has one test for each description that applies without a kubelet, on one
// installation of three nodes.
//
// Nodes, pods and outside clients are network namespaces, and the data plane of the kernel forwards
// traffic. Each description has its own namespace of the API, so most run at the same time. Those
// that restart a daemon or damage a node run afterwards, one by one.
//
// The table in docs/testing.md lists for each description of Kubernetes the test that implements
// it, or the reason why there is none.
package parity
