// Package gitops has tests of manifests that are kept outside of the registry, with a registry and an
// allocator in the process of the test: portolan apply and diff with --prune, the folder of registrar
// (registrar/dir), and the commands of docs/gitops.md, which it runs with the built programs.
package gitops
