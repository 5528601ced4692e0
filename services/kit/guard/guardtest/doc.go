// Package guardtest makes the work for an object panic, in tests of daemons and of their parts, and checks what
// the guard has reported.
package guardtest
