// Package ask is the client of the examples: it asks a URL again and again, each
// time by name and on a new connection, as a program would that has nothing left
// from before, and counts what came of it. Like the backend in package hello it
// lives in the command line so that trying Portolan needs no second program.
package ask
