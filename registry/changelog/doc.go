// Package changelog is the store's log as others know it: as changes of the contract, for the change stream and for those who read it over the API.
//
// It reads from the store itself and never from the view, which may lag: to the relay, a head that lags would look like a stream that ran ahead of a
// log that was set back.
package changelog
