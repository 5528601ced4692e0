// Package watchcache holds the objects of all kinds and their recent changes. All watches read from it.
//
// A follower of the change stream (services/changes) feeds the cache. The follower has the changes of all
// kinds in one order, with the object before each change, so that ADDED, MODIFIED and DELETED can be told
// apart for each selector. It heals gaps, and notices forged changes and a new epoch of the log. A thousand
// clients cost the registry nothing. The alternative, watches of the registry, is one stream for each kind,
// without the objects before the changes.
//
// A watch has no queue. Each watch reads the history of its kind from the revision that it has reached,
// so a slow client takes no memory. A watch that is behind the oldest change in the history expires, and its
// client lists again. The history begins when the process starts. It is discarded, and all watches expire, when
// the log has another epoch, because revisions of two epochs cannot be compared.
package watchcache
