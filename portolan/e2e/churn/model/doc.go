// Package model says what an installation should look like, given the objects that clients have written and
// that the registry has acknowledged.
//
// The rules are written once more here, from what the documents say and for the kinds of services that package
// workload makes, and not taken from the daemons: a mistake in a rule of a daemon must not be in the model too.
// All answers are sets of lines, which can be compared and printed without knowing what they are about.
package model
