// Package row has the form of times and claims that the databases of allocations share.
package row
