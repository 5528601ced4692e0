// Package obs is how a daemon is seen from outside: its logger, its metrics and
// the HTTP endpoints that show them.
//
// Nothing here is global. A process may hold several daemons, so each has a
// metrics registry and a logger of its own; the default Prometheus registry and
// slog's default logger would mix them up.
//
// Whatever is tried again and again reports its failures to an [Outage], which is
// two lines in the log. Comparing the texts of errors was the alternative: they
// differ from one attempt to the next, by ports, addresses and causes.
package obs
