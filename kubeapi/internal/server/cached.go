package server

import (
	"net/http"
	"slices"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// ofAnyAge reports whether the client accepts a list of any age. Such a list is answered from the cache. As in
// Kubernetes it ignores the limit and has all objects: informers read pages of 500 by default, and their own
// rate limit would delay the pages of a long list.
func (o *listOptions) ofAnyAge() bool { return o.version == "0" && o.page == "" }

// cached returns the objects of the cache that a list selects, and their revision.
func (req *request) cached(options listOptions) ([]*watchcache.Event, uint64, error) {
	match, err := req.matcher(options, kinds.List)
	if err == nil {
		err = req.server.awaitRevision(req.ctx, 0) // the cache has a first snapshot
	}
	if err != nil {
		return nil, 0, err
	}
	objects, at := req.server.cfg.Cache.List(req.resource.Codec.Kind.Name)
	return selected(objects, match), at.Revision, nil
}

// readCached reads a list from the cache.
func (req *request) readCached(options listOptions) (upstream.Page, error) {
	objects, revision, err := req.cached(options)
	page := upstream.Page{Revision: revision, Objects: make([]object.Object, len(objects))}
	for i, e := range objects {
		page.Objects[i] = e.New
	}
	return page, err
}

// listCached answers with a list from the cache. The cache keeps the encoded items of the format.
func (req *request) listCached(format wire.Format, options listOptions) error {
	objects, revision, err := req.cached(options)
	if err != nil {
		return err
	}
	codec := req.resource.Codec
	name, items := "item "+codec.GroupVersionKind.Group+" "+format.MediaType, make([][]byte, len(objects))
	for i, e := range objects {
		if items[i], err = e.Encoded(name, func() ([]byte, error) { return format.Item(codec.Write(e.New)) }); err != nil {
			return err
		}
	}
	body, err := format.Join(codec.GroupVersionKind, listMeta(upstream.Page{Revision: revision}), items)
	if err != nil {
		return err
	}
	req.sendBytes(http.StatusOK, format.ContentType(false), body)
	return nil
}

// selected returns the objects that match, in the order of lists. It reuses the slice.
func selected(objects []*watchcache.Event, match func(object.Object) bool) []*watchcache.Event {
	found := slices.DeleteFunc(objects, func(e *watchcache.Event) bool { return !match(e.New) })
	slices.SortFunc(found, func(a, b *watchcache.Event) int { return object.Compare(object.KeyOf(a.New), object.KeyOf(b.New)) })
	return found
}
