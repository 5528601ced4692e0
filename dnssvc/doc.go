// Package dnssvc is the name server: it follows the registry and answers by DNS for the names of services.
//
// Package zone turns objects into names when they change, package server answers questions from them. The daemon joins the two: it hands
// over what the change stream brings, serves the API that explains answers, and says how fresh they are.
//
// The one invariant: what was once known stays known. When the registry or the stream is away the server goes on with what it has and says how
// old that is; before it has seen a complete view it answers SERVFAIL for names that it does not know, never that they do not exist.
package dnssvc
