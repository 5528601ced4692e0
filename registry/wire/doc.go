// Package wire builds the answers of the registry's API from objects that are encoded already.
//
// The view has every object as bytes. A Get, a page of a List and a change of a Watch are those bytes with a few around them, so answering
// decodes and encodes nothing, and thousands of watchers share one encoding of a change. The price is that field numbers of the contract
// are written down here; [Check], which the API calls for every service it registers, holds them against the descriptors.
//
// The alternative, generated response messages that hold decoded objects, costs an encoding per answer and per watcher.
package wire
