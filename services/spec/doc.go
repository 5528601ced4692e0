// Package spec defines correct objects: defaults, validation, allowed changes of an update, label
// and field selectors, and the Kubernetes spelling of our enums.
//
// All functions are pure functions of core.v1 messages, without clock, store or network. The
// functions of a kind are entries of its row in package kinds, which calls them and checks the common
// rules of all kinds. The invariant: an object that passed Default, PrepareCreate or
// PrepareUpdate of its kind, [ResolveFamilies] and then Validate or ValidateUpdate without
// violations needs no further checks by its readers. Properties that depend on other objects, for
// example whether an address is free, are checked elsewhere. All violations of an object are
// reported together, under the field paths that manifests use.
//
// The rules could have been annotations in the contract (protovalidate). But most of them depend on
// several fields, on the object before the update or on the installation, and would have become a
// second language. The order of the steps on a create is Default, PrepareCreate, ResolveFamilies,
// Validate, allocation; on an update Default, PrepareUpdate, ResolveFamilies, ValidateUpdate,
// allocation.
package spec
