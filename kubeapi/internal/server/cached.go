package server

import (
	"slices"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// readCached reads a list from the cache, for a client that takes one of any age (resourceVersion=0). Like
// Kubernetes it has all objects, whatever the limit: informers read pages of 500 by default, and would wait
// at their own limit of requests for the pages of a long list.
func (req *request) readCached(options listOptions) (upstream.Page, error) {
	kind := req.resource.Codec.Kind
	match, err := req.matcher(options, kinds.List)
	if err == nil {
		err = req.server.awaitRevision(req.ctx, 0) // the cache has a first snapshot
	}
	if err != nil {
		return upstream.Page{}, err
	}
	objects, at := req.server.cfg.Cache.List(kind.Name)
	return upstream.Page{Objects: selected(objects, match), Revision: at.Revision}, nil
}

// selected returns the objects that match, in the order of lists. It takes the slice over.
func selected(objects []object.Object, match func(object.Object) bool) []object.Object {
	found := slices.DeleteFunc(objects, func(o object.Object) bool { return !match(o) })
	slices.SortFunc(found, func(a, b object.Object) int { return object.Compare(object.KeyOf(a), object.KeyOf(b)) })
	return found
}
