// Package churn has clients change all objects at random in a whole installation. Whenever the
// clients rest, it compares all daemons with a model: slices with the rules, and names, plans, data
// planes and allocations with the objects.
//
// Its parts are separate packages, so that runs with faults can use them: workload generates and
// executes writes, model computes the expected state, check compares.
//
// A run's writes depend on its seed only. The interleaving of the daemons does not, so a seed that
// fails finds its fault often but not always.
//
//	go test ./portolan/e2e/churn -seed 7 -churn 10m
package churn
