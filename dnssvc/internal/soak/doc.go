// Package soak asks a name server questions while its data changes, and checks every answer against
// a model.
//
// Every service has versions, and each of its records shows its version. The oldest valid version
// of an answer is the last version that was complete before the question was sent. The newest is the
// last version that was begun before the answer arrived. An answer with records of two versions is torn. The
// checks therefore do not depend on timing.
package soak
