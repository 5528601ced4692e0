// Package helloserver is the backend of the examples: a small HTTP server that answers with its
// name. It is part of the command line so that trying Portolan needs no second program. Other
// backends do not depend on it.
package helloserver
