// Package scope says which objects a role may write, and what of them: the part
// of authorisation that needs the object.
//
// services/access has let the call through, because the role writes objects of
// this kind in this way at all. The invariant here: a node agent changes nothing
// that belongs to another node, and a controller nothing that people or other
// controllers have made, whatever a request says; the old object counts, not
// what the request claims of it. That is why the rules are asked inside the
// write, with the version that it replaces, and not before it.
package scope
