// Package object has the properties that objects of all kinds share: metadata, a key, and the
// envelope for transport. It also has the functions and names that several daemons use to read
// objects: the names of labels and annotations, conditions, and whether a service is headless.
//
// Code that treats all kinds alike (the registry, the change stream, manifests, the command line)
// is based on [Kinds]. Adding a kind takes a message in the contract, its field in core.v1.Object,
// and a row in Kinds. The fields of the envelope's oneof are read from its descriptor once, at
// start. A switch in each function would be a little faster, but would have to be extended for
// every new kind.
package object
