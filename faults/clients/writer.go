package clients

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// writer creates, updates, deletes and reads objects that other clients write too. Each call goes
// to a random registry.
type writer struct {
	caller
	registries []registry
	random     *rand.Rand
	objects    []contendedObject
	// thinkTime is the mean pause between two calls, and callTimeout the timeout of a call.
	thinkTime, callTimeout time.Duration

	// known are the versions that the writer last received.
	known map[object.Key]history.Version
}

// shortDeadlinePercent is the percentage of calls with a far too short deadline, so that outcomes
// are unknown even without faults.
const shortDeadlinePercent = 4

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.makeCall(ctx, w.objects[w.random.IntN(len(w.objects))])
		app.Pause(ctx, time.Duration(w.random.Int64N(2*int64(w.thinkTime))))
	}
}

// makeCall makes one call about an object.
func (w *writer) makeCall(ctx context.Context, o contendedObject) {
	timeout := w.callTimeout
	c := history.Call{Key: o.key, Verb: w.chooseVerb(o.key), ShortDeadline: w.random.IntN(100) < shortDeadlinePercent}
	if c.ShortDeadline {
		timeout = time.Duration(w.random.IntN(4000)) * time.Microsecond
	}
	r := w.registries[w.random.IntN(len(w.registries))]
	if c.Verb == history.Create || c.Verb == history.Update {
		c.WriteID = w.nextWriteID()
	}
	if c.Verb == history.Update || c.Verb == history.Delete {
		w.addConditions(&c)
	}
	found, err := w.recordCall(ctx, r, c, timeout, func(ctx context.Context) (object.Object, error) { return w.call(ctx, r, o, c) })
	w.updateKnown(o.key, c.Verb, found, err)
}

// chooseVerb returns the verb of the next call. An object that is not known to exist is created in
// most cases.
func (w *writer) chooseVerb(key object.Key) history.Verb {
	n := w.random.IntN(100)
	_, known := w.known[key]
	switch {
	case n < 25:
		return history.Get
	case !known && n < 85:
		return history.Create
	case n < 30:
		return history.Create
	case n < 80:
		return history.Update
	}
	return history.Delete
}

// addConditions makes most writes conditional on the last known version or UID.
func (w *writer) addConditions(c *history.Call) {
	last, known := w.known[c.Key]
	if !known {
		return
	}
	switch n := w.random.IntN(100); {
	case n < 50:
		c.IfUID, c.IfRevision = last.UID, last.Revision
	case n < 75:
		c.IfUID = last.UID
	}
}

func (w *writer) call(ctx context.Context, r registry, contended contendedObject, c history.Call) (object.Object, error) {
	switch c.Verb {
	case history.Create:
		return writeObject(ctx, r, "Create", w.newObject(contended, c))
	case history.Update:
		return writeObject(ctx, r, "Update", w.newObject(contended, c))
	case history.Delete:
		return deleteObject(ctx, r, c.Key, c.IfUID, c.IfRevision)
	}
	return w.read(ctx, r, c.Key)
}

// read returns the newest version. Because a registry's view may lag behind, it first reads the
// store's revision and then requests a view of at least that revision.
func (w *writer) read(ctx context.Context, r registry, key object.Key) (object.Object, error) {
	head, err := registryv1.NewChangeServiceClient(r).GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		return nil, err
	}
	return getObject(ctx, r, key, head.GetRevision())
}

func (w *writer) newObject(contended contendedObject, c history.Call) object.Object {
	o := contended.generate(w.random)
	meta := object.MetaOf(o)
	meta.Namespace, meta.Name = contended.key.Namespace, contended.key.Name
	meta.Uid, meta.ResourceVersion = c.IfUID, c.IfRevision
	setWriteID(o, c.WriteID)
	return o
}

// updateKnown updates the known version of an object from a response.
func (w *writer) updateKnown(key object.Key, verb history.Verb, found object.Object, err error) {
	switch {
	case err == nil && verb != history.Delete:
		w.known[key] = history.VersionOf(found)
	case err == nil || status.Code(err) == codes.NotFound:
		delete(w.known, key)
	}
}
