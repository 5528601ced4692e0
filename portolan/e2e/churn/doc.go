// Package churn has clients change everything at random in a whole installation, and compares all daemons with
// a model whenever the clients rest: slices with the rules, names, plans, data planes and allocations with the
// objects.
//
// The parts are packages of their own, so that runs with faults can use them: workload makes up and carries out
// writes, model says what should be, check compares.
//
// A run is given by its seed. Daemons are not: what a run finds depends on how they interleave, so a seed that
// fails finds the fault often and not always.
//
//	go test ./portolan/e2e/churn -seed 7 -churn 10m
package churn
