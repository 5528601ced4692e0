package server

import (
	"slices"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/watchcache"
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
	page := upstream.Page{Revision: at.Revision}
	for _, e := range selected(objects, match) {
		page.Objects = append(page.Objects, e.New)
	}
	return page, nil
}

// selected returns the objects that match, in the order of lists. It takes the slice over.
func selected(objects []*watchcache.Event, match func(object.Object) bool) []*watchcache.Event {
	found := slices.DeleteFunc(objects, func(e *watchcache.Event) bool { return !match(e.New) })
	slices.SortFunc(found, func(a, b *watchcache.Event) int { return object.Compare(object.KeyOf(a.New), object.KeyOf(b.New)) })
	return found
}
