// Package changelog converts the store's log to changes of the API, for the change stream and for
// clients that read the log.
//
// It reads from the store and never from the view, which may lag: a lagging head would look to the
// relay as if the stream were ahead of a log that was set back.
package changelog
