// Package wake has the signal by which one goroutine tells another one that there is work, such as a
// view that has changed.
package wake
