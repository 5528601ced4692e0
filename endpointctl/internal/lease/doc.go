// Package lease elects one leader among replicas by a Lease in the registry.
//
// The invariant: at no time do two replicas write with success. A leader that
// cannot renew gives up before others may take over, by its own clock; and
// should its clock or its scheduler betray it, its writes carry the epoch of its
// lease ([Fence]), which the registry refuses once another has taken over.
//
// Others judge a lease by whether it changes, never by the times that are
// written in it: clocks of machines need not agree.
package lease
