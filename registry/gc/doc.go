// Package gc removes what nobody needs any more: objects whose owners are all gone, what is in a namespace that is being deleted, events that are old or too
// many, and the part of the change log that is no longer kept.
//
// It looks at the view and writes like any client, on exactly the version that it judged. The invariant: it may stop anywhere and run anywhere, in any number
// of replicas, and the same objects go. A single collector, elected, would save some lost races and could fail to be there.
package gc
