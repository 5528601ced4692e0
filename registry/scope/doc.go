// Package scope limits which objects, and which fields of them, a role may write. It is the part of
// authorisation that needs the object.
//
// services/access has already checked that the role may call the method at all. The invariant is
// that a node agent changes only objects of its own node, and that a controller does not change
// objects of people or of other controllers. The stored object decides, not the object in the
// request. The rules are therefore checked within the write, against the version that it replaces,
// and not before it.
package scope
