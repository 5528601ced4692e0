package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kube"
)

// get answers with one object.
func (req *request) get() error {
	format, err := wire.Negotiate(req.r, wire.Table, wire.Partial)
	if err != nil {
		return err
	}
	if req.resource.Codec == nil {
		return apierrors.NewNotFound(req.resource.GroupResource(), req.name)
	}
	version := req.query.Get("resourceVersion")
	asked, err := parseVersion(version)
	if err != nil {
		return err
	}
	revision, err := req.readRevision(version, asked)
	if err != nil {
		return err
	}
	o, err := req.server.cfg.Registry.Get(req.ctx, req.resource.Codec.Kind, req.namespace, req.name, revision)
	if err != nil {
		return err
	}
	return req.sendObject(http.StatusOK, format, o)
}

// readRevision returns the oldest revision that a read may have: the newest one of the registry if the
// client gives no version, and otherwise the client's version. It waits until the cache has the latter.
func (req *request) readRevision(version string, asked uint64) (uint64, error) {
	if version == "" {
		return req.server.cfg.Registry.Head(req.ctx)
	}
	if asked == 0 {
		return 0, nil
	}
	return asked, req.server.awaitRevision(req.ctx, asked)
}

// freshTimeout is the time that a request waits until the cache has a revision, as in Kubernetes.
const freshTimeout = 3 * time.Second

// awaitRevision waits until the cache has a revision. After freshTimeout it returns the error that the
// revision is too large. The client may have the revision from a log that was replaced by an older copy, or
// from another server that is far ahead of this one.
func (s *Server) awaitRevision(ctx context.Context, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	if s.cfg.Cache.WaitFor(ctx, revision) == nil {
		return nil
	}
	status := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", revision, s.cfg.Cache.Revision()), 1)
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return status
}

// largestPage is the largest number of objects in a page of the registry.
const largestPage = 1000

// list answers with the objects of a resource.
func (req *request) list() error {
	format, err := wire.Negotiate(req.r, wire.Table, wire.PartialList)
	if err != nil {
		return err
	}
	options, err := parseListOptions(req.query, false)
	if err != nil {
		return err
	}
	rows, err := req.rows()
	if err != nil {
		return err
	}
	if options.ofAnyAge() && req.resource.Codec != nil && format.Joins() {
		return req.listCached(format, options)
	}
	var page upstream.Page
	var empty runtime.Object
	if codec := req.resource.Codec; codec != nil {
		empty = codec.NewList()
		page, err = req.readList(options)
	} else {
		page.Revision, err = req.server.cfg.Registry.Head(req.ctx)
	}
	if err != nil {
		return err
	}
	objects := make([]kube.Object, len(page.Objects))
	for i, o := range page.Objects {
		objects[i] = req.resource.Codec.Write(o)
	}
	out, err := format.List(req.resource.Kind, objects, listMeta(page), empty, rows)
	if err != nil {
		return err
	}
	return req.send(http.StatusOK, format, out)
}

// listMeta returns the metadata of a page.
func listMeta(page upstream.Page) metav1.ListMeta {
	about := metav1.ListMeta{ResourceVersion: strconv.FormatUint(page.Revision, 10), Continue: page.Next}
	if page.Remaining > 0 {
		about.RemainingItemCount = new(int64(page.Remaining)) // #nosec G115 -- a number of objects
	}
	return about
}

// readList reads a page of a list, or the whole list if the client sets no limit.
func (req *request) readList(options listOptions) (upstream.Page, error) {
	if options.ofAnyAge() {
		return req.readCached(options)
	}
	query := upstream.Query{
		Namespace: req.namespace, Labels: options.labels, Fields: options.fields, Limit: int32(min(options.limit, largestPage)), Page: options.page, // #nosec G115 -- limited
	}
	if options.page == "" {
		revision, err := req.readRevision(options.version, options.revision)
		if err != nil {
			return upstream.Page{}, err
		}
		query.MinRevision = revision
	}
	if options.limit == 0 {
		query.Limit = largestPage
	}
	page, err := req.server.cfg.Registry.List(req.ctx, req.resource.Codec.Kind, query)
	if err != nil {
		return page, err
	}
	if options.match == metav1.ResourceVersionMatchExact && page.Revision != options.revision {
		return page, apierrors.NewResourceExpired(fmt.Sprintf("The resourceVersion for the provided list is too old: only the newest one, %d, is listed", page.Revision))
	}
	if options.limit != 0 {
		return page, nil
	}
	return req.readFurther(query, page)
}

// readFurther reads all pages after the first one, and returns all objects as one page.
func (req *request) readFurther(query upstream.Query, page upstream.Page) (upstream.Page, error) {
	objects := page.Objects
	for page.Next != "" {
		query.Page = page.Next
		var err error
		if page, err = req.server.cfg.Registry.List(req.ctx, req.resource.Codec.Kind, query); err != nil {
			return page, err
		}
		objects = append(objects, page.Objects...)
	}
	page.Objects = objects
	return page, nil
}
