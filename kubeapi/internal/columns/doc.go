// Package columns has the columns and cells of Tables, which kubectl get prints. They are the same as
// Kubernetes' own for each kind.
package columns
