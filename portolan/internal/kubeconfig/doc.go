// Package kubeconfig writes the files from which kubectl and other clients of Kubernetes read where the
// API is and who they are. Kubernetes' own package for them would link client-go into the command line.
package kubeconfig
