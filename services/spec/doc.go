// Package spec says what a correct object is: defaults, validation, what an update may change, label and field selectors, and how
// Kubernetes spells our enums.
//
// Everything here is a pure function over core.v1 messages: no clock, no store, no network. The invariant: an object that passed
// [Default], [PrepareCreate] or [PrepareUpdate], [ResolveFamilies] and then [Validate] or [ValidateUpdate] without violations needs no
// further checks by whoever reads it; what depends on other objects (is the address free, is it another service's) is asked elsewhere.
// All violations of an object are found in one go, under the field paths that manifests use.
//
// The rules could have been annotations in the contract (protovalidate); most of them look at several fields, at the object before the
// update or at the installation, and would have become a second language. The order of the steps on a create is Default, PrepareCreate,
// ResolveFamilies, Validate, allocation; on an update Default, PrepareUpdate, ResolveFamilies, ValidateUpdate, allocation.
package spec
