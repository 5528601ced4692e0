// Package viewfile keeps a daemon's view on disk, so that it can start from what was last
// known while the registry is away.
//
// A file holds what the registry would stream as a snapshot, between a line that names its
// form and its owner, and a checksum. The invariant: what Load returns is exactly what one Save
// wrote. A file that was cut off anywhere, was damaged, or belongs to another owner is an error.
//
// The file's modification time says when its contents were last known to be current. [Keep]
// moves it while nothing changes, because writing a large view again only to say so would be
// waste.
package viewfile
