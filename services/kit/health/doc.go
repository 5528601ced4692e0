// Package health tracks whether a daemon is ready, and if not, why.
//
// Each part of a daemon reports its state under its own name. The daemon is ready if no part reports
// an error. A warning or a note is shown beside that, and does not make the daemon unready. The
// registry's state is served at /readyz and by the gRPC health service. Parts report their state when
// it changes instead of being polled, because a part notices a change at once and a probe must be
// cheap. Only transitions are logged.
package health
