// Package loadclient is the client of the examples. It requests a URL again and again and counts
// the results. Each request resolves the name and makes a new connection, as a newly started
// program would. Like the backend in package helloserver it is part of the command line so that
// trying Portolan needs no second program.
package loadclient
