// Package kube has the types of Kubernetes' objects that manifests describe, with the JSON of
// k8s.io/api.
//
// types.go is generated from k8s.io/api, and a test compares the two. k8s.io/api itself needs 40
// packages, for other encodings and for clients, which took a twelfth of the time that the command
// line took to build, and a fifth of its size. A table of the fields' names and kinds would be
// smaller, but the conversion would lose the compiler's check.
package kube
