// Package row encodes times and claims for the databases of allocations.
package row
