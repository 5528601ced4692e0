package server

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"portolan.dev/kubeapi/internal/ownership"
	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// application is a configuration that a manager applies.
type application struct {
	*writing
	tracker       *ownership.Tracker
	configuration *unstructured.Unstructured
	force         bool
}

// isApply reports whether the request is a server-side apply.
func (req *request) isApply() bool {
	return req.verb == verbPatch && types.PatchType(wire.MediaType(req.r)) == types.ApplyYAMLPatchType
}

// apply merges a configuration into the stored object, or creates the object.
func (w *writing) apply(body []byte) error {
	a := application{writing: w, force: boolean(w.query, "force")}
	var err error
	if a.configuration, err = w.readConfiguration(body); err != nil {
		return err
	}
	if a.tracker, err = w.tracker(); err != nil {
		return err
	}
	var written upstream.Written
	var code int
	for attempt := range patchAttempts {
		written, code, err = a.once(w.verbOfUpdate())
		raced := apierr.IsConflict(err) && a.configuration.GetResourceVersion() == "" || apierr.IsAlreadyExists(err)
		if !raced || attempt == patchAttempts-1 {
			break
		}
		w.w.Header().Del("Warning")
	}
	if err != nil {
		return err
	}
	return w.answer(written, code)
}

// readConfiguration reads the body of an apply, which is YAML or JSON.
func (w *writing) readConfiguration(body []byte) (*unstructured.Unstructured, error) {
	text, repeated, err := wire.FromYAML(body)
	switch {
	case err != nil:
		return nil, badRequest("error encoding patch: %v", err)
	case repeated != nil && w.validation == metav1.FieldValidationStrict:
		return nil, badRequest("error strict decoding patch: error converting YAML to JSON: %v", repeated)
	case repeated != nil:
		if err := w.checkStrict([]error{repeated}); err != nil {
			return nil, err
		}
	}
	if err := wire.CheckQuantities(text, w.codec.New()); err != nil {
		return nil, badRequest("error decoding patch: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := kjson.Unmarshal(text, &u.Object); err != nil {
		return nil, badRequest("error decoding patch: it is no object")
	}
	if u.Object == nil { // the tracker returns the error that the kind is missing
		u.Object = map[string]any{}
	}
	return u, nil
}

// once applies the configuration to the newest version of the object.
func (a *application) once(verb kinds.Verb) (written upstream.Written, code int, err error) {
	stored, err := a.newest()
	switch {
	case apierr.IsNotFound(err) && verb == kinds.Update:
		if stored, verb, err = nil, kinds.Create, a.checkNew(); err != nil {
			return written, 0, err
		}
	case err != nil:
		return written, 0, err
	}
	o, err := a.merge(stored)
	if err != nil {
		return written, 0, err
	}
	code = http.StatusOK
	if verb == kinds.Create {
		code = http.StatusCreated
	}
	written, err = a.server.cfg.Registry.Write(a.ctx, a.codec.Kind, verb, o, a.dryRun)
	return written, code, err
}

// checkNew returns an error if the configuration has a UID or a version, and so can only apply to an object
// that exists.
func (a *application) checkNew() error {
	if uid := a.configuration.GetUID(); uid != "" {
		return apierrors.NewConflict(a.resource.GroupResource(), a.name, errors.New("uid mismatch: the provided object specified uid "+string(uid)+", and no existing object was found"))
	}
	if a.configuration.GetResourceVersion() != "" {
		return badRequest("resourceVersion should not be set on objects to be created")
	}
	return nil
}

// merge returns the stored object with the configuration applied. stored is nil for a new object.
func (a *application) merge(stored object.Object) (object.Object, error) {
	before := a.tracker.Empty()
	if stored != nil {
		before = a.codec.Write(stored)
	}
	merged, err := a.tracker.Apply(before, a.configuration, a.manager, a.force)
	if err != nil {
		return nil, a.invalidPatch(err)
	}
	if err := a.place(merged); err != nil {
		return nil, err
	}
	if stored != nil {
		if _, err := a.checkPatched(before, merged); err != nil {
			return nil, err
		}
	}
	o, err := a.read(merged)
	if err != nil {
		return nil, err
	}
	owners, err := a.tracker.Present(merged.GetManagedFields(), a.codec.Write(a.complete(stored, o)))
	if err != nil {
		return nil, err
	}
	setOwners(o, owners)
	return o, nil
}
