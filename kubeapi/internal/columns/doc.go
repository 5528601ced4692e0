// Package columns makes Tables: the columns and cells that kubectl get prints for each kind, which are
// those of a cluster.
package columns
