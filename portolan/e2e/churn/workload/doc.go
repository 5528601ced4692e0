// Package workload writes objects at random, so that services, pods and slices come, change, go and come again
// under the same names and addresses.
//
// An Actor makes up what happens in one namespace. What it makes up depends on its seed alone, and never on
// time or answers, so that a run can be repeated. Actors share no name and no address: so each of their writes
// must succeed however they run beside each other, and the order of writes to one object is known.
package workload
