// Package model computes the expected state of an installation from the objects that clients have
// written and that the registry has acknowledged.
//
// It implements the rules again, from the documents and for the kinds of services that package
// workload makes. It does not use the daemons' code, because a mistake in a daemon's rule must not
// be in the model too. All results are sets of lines, which can be compared and printed without
// knowledge of their meaning.
package model
