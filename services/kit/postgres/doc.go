// Package postgres has what daemons with a PostgreSQL database share: the configuration of
// connections, certificates that are read anew for each connection, and texts of errors.
//
// It is apart from package sqldb because it links the driver, which the command line does not need.
package postgres
