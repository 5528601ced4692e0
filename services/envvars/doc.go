// Package envvars renders the environment variables by which a workload finds the services that
// exist when it starts: {NAME}_SERVICE_HOST, {NAME}_SERVICE_PORT and the variables of Docker's
// older container links.
//
// The invariant: the same services give the same variables, in any order of the input. Two services
// can claim the same variable: services "foo" and "foo-service" both claim FOO_SERVICE_PORT. In
// Kubernetes the iteration order of a map decides between them. Here the SERVICE variables take
// precedence over the link variables, and then the service with the lower name wins. A warning
// names the other service.
package envvars
