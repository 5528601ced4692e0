// Package workload writes objects at random, so that services, pods and slices are created,
// changed, deleted and created again under the same names and addresses.
//
// An Actor generates the writes of one namespace. They depend on its seed only, never on time or
// responses, so that a run can be repeated. Actors share no name and no address. Each of their
// writes must therefore succeed however they interleave, and the order of writes to one object is
// known.
package workload
