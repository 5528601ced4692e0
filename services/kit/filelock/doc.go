// Package filelock keeps a second process from using the same data. The system releases a lock when
// the process ends in any way, so no lock is left behind by a crash.
package filelock
