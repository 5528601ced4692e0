// Package kubecheck has tests that compare Portolan's manifests and rules with Kubernetes' libraries:
// services/manifest with Kubernetes' own decoder, and the syntax in services/spec with its validation.
//
// The tests are not beside services/spec, because every daemon depends on that package, and Kubernetes'
// libraries take long to build.
package kubecheck
