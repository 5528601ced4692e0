// Package kubecheck has tests that compare Portolan's own types and rules with those of Kubernetes'
// libraries: services/manifest, its types in services/manifest/kube, and the syntax in services/spec.
//
// The tests are not beside the packages that they check, because those are part of a module that every
// daemon depends on. Kubernetes' libraries take long to build, and so this module is the only one,
// besides kubeapi, that requires them.
package kubecheck
