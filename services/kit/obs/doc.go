// Package obs is how a daemon is seen from outside: its logger, its metrics and
// the HTTP endpoints that show them.
//
// Nothing here is global. A process may hold several daemons, so each has a
// metrics registry and a logger of its own; the default Prometheus registry and
// slog's default logger would mix them up.
package obs
