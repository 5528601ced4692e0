// Package linelog has the parts that logs with a line for each call, request or connection have in
// common: the goroutine that writes the waiting lines ([Writer]), and a write that leaves no part of
// a line behind ([Append]).
//
// The log itself keeps the waiting lines, because the audit log has one queue and the access logs
// have one for each service and interval.
package linelog
