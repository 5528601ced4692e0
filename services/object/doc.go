// Package object is what objects of every kind have in common: metadata, a key, and the envelope in which they travel.
//
// Code that treats all kinds alike (the registry, the change stream, manifests, the command line) stands on [Kinds]: adding a kind means a
// message in the contract, its field in core.v1.Object, and a row there. The envelope's oneof is read through the descriptor once, at start;
// a switch per function would be a little faster and would have to be found and extended for every new kind.
package object
