// Package envvars renders the environment variables by which a workload finds the services that exist when it starts:
// {NAME}_SERVICE_HOST, {NAME}_SERVICE_PORT and the variables of Docker's older container links.
//
// The invariant: the same services give the same variables, in whatever order they come. Two services can claim one name (services "foo"
// and "foo-service" both claim FOO_SERVICE_PORT); Kubernetes leaves the winner to the order of a map. Here the SERVICE variables win over
// the link variables, then the service whose name sorts first, and the loser is named in a warning.
package envvars
