// Package postgres has the shared code of daemons with a PostgreSQL database: the configuration of
// connections, certificates that are read anew for each connection, and texts of errors.
//
// It is separate from package sqldb because it links the driver, which the command line does not need.
package postgres
