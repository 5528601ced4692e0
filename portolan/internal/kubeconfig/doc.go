// Package kubeconfig writes the files from which kubectl and other clients of Kubernetes read the address
// of the API and their credentials. Kubernetes' own package for them would link client-go into the command
// line.
package kubeconfig
