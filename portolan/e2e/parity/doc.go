// Package parity is Kubernetes' own end-to-end list for Services (its test/e2e/network) as tests of Portolan: one
// test for each description that makes sense without a kubelet, against one installation of three nodes.
//
// Nodes, pods and clients outside are network namespaces, and traffic is forwarded by the data plane that the
// kernel has. Each description has a namespace of the API for itself, so most run at the same time. Those that
// restart a daemon or damage a node run afterwards, one by one.
//
// The table in docs/testing.md says for each description of Kubernetes' list which test stands for it, or why
// none can.
package parity
