// Package backupcmd is the commands `registry export` and `registry import`.
//
// They work through a running registry, or on its store where none is running: a backup must also be possible when the registry does not start.
package backupcmd
