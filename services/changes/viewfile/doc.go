// Package viewfile stores a daemon's view on disk, so that the daemon can start from its last known
// state while the registry is away.
//
// A file holds the objects in the form in which the registry streams a snapshot. A line with the
// file's format and owner comes before them, and a checksum after them. The invariant: Load returns
// exactly the contents that one Save wrote. A file that is truncated anywhere, is damaged, or
// belongs to another owner is an error.
//
// The file's modification time is the time when its contents were last known to be current. [Keep]
// updates that time while nothing changes, because rewriting a large view only to update the time
// would be waste.
package viewfile
