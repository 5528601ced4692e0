// Package obs makes a daemon observable. It provides the logger, the metrics registry and the HTTP
// endpoints that expose them.
//
// There is no global state. A process may run several daemons, so each daemon has its own metrics
// registry and logger. The default Prometheus registry and slog's default logger would mix them up.
//
// Code that retries an operation reports its failures to an [Outage], which logs two lines per
// outage. Comparing the texts of errors would not work, because ports, addresses and causes differ
// between attempts.
package obs
