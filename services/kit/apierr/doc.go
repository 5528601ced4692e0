// Package apierr defines the errors of Portolan's APIs.
//
// A handler of a daemon returns one of these errors. The server's interceptor turns it into a gRPC
// status with google.rpc details, and a client reads it with the functions of this package. The
// invariant: every error of an API carries an ErrorInfo of the domain portolan.dev with a reason
// that programs can match, and an error of any other type reaches the caller as Internal, without
// its text.
//
// Handlers never build statuses themselves. One error type with one mapping keeps codes and details
// the same in every daemon. The alternative, statuses built in the handlers, would give different
// codes for the same error.
package apierr
