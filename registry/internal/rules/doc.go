// Package rules holds the rules that are specific to one kind of object. The rest of the registry
// treats all kinds alike.
//
// The rules for an object by itself are in services/spec. The rules here need more than the object:
// other objects, the installation, or the time of the write. A kind without hooks here has no
// specific rules.
package rules
