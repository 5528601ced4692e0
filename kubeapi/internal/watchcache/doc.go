// Package watchcache holds the objects of all kinds and their recent changes, and is the one source of
// all watches.
//
// It is fed by a follower of the change stream (services/changes), and not by the registry's watches.
// One follower has the changes of all kinds in one order, with the version before each change, so that
// ADDED, MODIFIED and DELETED can be told apart for each selector; it heals gaps, notices forged changes
// and a log that began anew; and a thousand clients cost the registry nothing. Watches of the registry
// would be a stream for each kind, none of which says what an object was before.
//
// A watch has no queue. Each one reads the history of its kind from the revision that it has reached,
// so a slow client holds no memory: when it is behind the oldest change in the history, it has expired
// and lists again. The history begins when the process does. It ends, for all watches, when the log has
// another epoch, because revisions of two epochs cannot be compared.
package watchcache
