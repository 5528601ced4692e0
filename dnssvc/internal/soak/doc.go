// Package soak asks a name server questions while its data changes, and holds every answer against a model.
//
// Every service has versions, and all its records say which version they are of. A version that was complete before the question was sent is
// the oldest that may be answered, and one that was begun before the answer came is the newest; an answer of which two records disagree is
// torn. So correctness does not depend on when anything happens, and neither does the verdict.
package soak
