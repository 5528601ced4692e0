// Package object has the properties that objects of all kinds share: metadata, a key, and the
// envelope for transport. It also has the functions and names that several daemons use to read
// objects: the names of labels and annotations, conditions, and whether a service is headless.
//
// The kinds are the fields of the envelope's oneof, which are read from its descriptor once, at
// start. A switch in each function would be a little faster, but would have to be extended for
// every new kind. The properties of a single kind are in package kinds.
package object
