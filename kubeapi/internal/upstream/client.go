package upstream

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// Client calls a registry.
type Client struct{ conn grpc.ClientConnInterface }

// New returns a client on a connection. The caller closes the connection.
func New(conn grpc.ClientConnInterface) *Client { return &Client{conn: conn} }

// Head returns the newest revision.
func (c *Client) Head(ctx context.Context) (uint64, error) {
	head, err := registryv1.NewChangeServiceClient(c.conn).GetHead(ctx, &registryv1.GetHeadRequest{})
	return head.GetRevision(), err
}

// Get returns an object at minRevision or a later revision.
func (c *Client) Get(ctx context.Context, kind *kinds.Kind, namespace, name string, minRevision uint64) (object.Object, error) {
	return client.Object(onBehalf(ctx), c.conn, kind, kinds.Get, map[string]any{"namespace": namespace, "name": name, "min_revision": minRevision})
}

// Query selects objects and a page of them.
type Query struct {
	Namespace      string // empty: all
	Labels, Fields string // selectors
	Limit          int32  // objects of the page; 0: the registry's default
	Page           string // the token of the page; empty: the first one
	MinRevision    uint64
}

// Page is a page of a list.
type Page struct {
	Objects  []object.Object
	Next     string // the token of the next page; empty: this is the last one
	Revision uint64 // of all pages
	// Remaining is the number of objects after this page. It is 0 if there are none, or if the query has
	// a selector.
	Remaining uint64
}

// List returns a page of objects.
func (c *Client) List(ctx context.Context, kind *kinds.Kind, q Query) (Page, error) {
	answer, err := c.call(ctx, kind, kinds.List, map[string]any{
		"namespace": q.Namespace, "label_selector": q.Labels, "field_selector": q.Fields, "page_size": q.Limit, "page_token": q.Page,
		"min_revision": q.MinRevision,
	})
	if err != nil {
		return Page{}, err
	}
	known := answer.Descriptor().Fields()
	return Page{
		Objects: client.ObjectsIn(answer, kind), Next: answer.Get(known.ByName("next_page_token")).String(),
		Revision: answer.Get(known.ByName("revision")).Uint(), Remaining: answer.Get(known.ByName("remaining")).Uint(),
	}, nil
}

// Written is the result of a write.
type Written struct {
	Object   object.Object
	Warnings []string
}

// Write creates an object, updates it, or updates its status, depending on the verb.
func (c *Client) Write(ctx context.Context, kind *kinds.Kind, verb kinds.Verb, o object.Object, dryRun bool) (Written, error) {
	answer, err := c.call(ctx, kind, verb, map[string]any{"dry_run": dryRun}, o)
	if err != nil {
		return Written{}, err
	}
	written := Written{Object: client.ObjectIn(answer, kind)}
	if field := answer.Descriptor().Fields().ByName("warnings"); field != nil {
		list := answer.Get(field).List()
		for i := range list.Len() {
			written.Warnings = append(written.Warnings, list.Get(i).String())
		}
	}
	return written, nil
}

// Delete deletes an object and returns its last version. The version has a deletion timestamp if the object
// still exists.
func (c *Client) Delete(ctx context.Context, d client.Deletion) (object.Object, error) {
	return client.New(c.conn).Delete(onBehalf(ctx), d)
}

// call calls the method of a verb of a kind on behalf of the client of ctx.
func (c *Client) call(ctx context.Context, kind *kinds.Kind, verb kinds.Verb, values map[string]any, objects ...object.Object) (protoreflect.Message, error) {
	return client.Call(onBehalf(ctx), c.conn, kind, verb, values, objects...)
}

// onBehalf returns a context for calls on behalf of the client of ctx.
func onBehalf(ctx context.Context) context.Context {
	if id, err := identity.Caller(ctx); err == nil {
		return identity.OnBehalfOf(ctx, id)
	}
	return ctx
}
