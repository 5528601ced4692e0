// Package program is the registry as a program of its own: the daemon with every kind of store, and
// the commands that make and restore backups and that show or change the identity of a store. The commands
// for backups use a running registry, or its store if no registry runs, because a backup must also be possible
// if the registry does not start.
//
// It is a package apart from registry because it links the driver of Postgres. The command line
// runs the registry with the embedded store only, and builds in less time without the driver.
// Alternative: stores that register themselves when they are imported, as drivers of database/sql
// do; but then a forgotten import is noticed only when the program runs.
package program
