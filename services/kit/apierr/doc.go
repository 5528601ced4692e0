// Package apierr holds the errors that cross Portolan's APIs.
//
// A daemon returns one of these errors from a handler; the server's interceptor
// turns it into a gRPC status with google.rpc details, and a client reads it
// back with the functions of this package. The invariant: every error a caller
// sees carries an ErrorInfo of the domain portolan.dev with a reason that
// programs can match, and an error that nobody classified reaches the caller as
// Internal with no text of ours in it.
//
// Handlers never build statuses themselves. One typed error with one mapping
// keeps codes and details the same in every daemon; the alternative, status
// errors built where they occur, gives every handler its own opinion of what a
// conflict looks like.
package apierr
