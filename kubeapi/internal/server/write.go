package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// writing is a request that writes one object.
type writing struct {
	*request
	codec      *kube.Codec
	format     wire.Format
	dryRun     bool
	validation string
	manager    string // owns the fields that are written
}

// newWriting reads the options of a write.
func (req *request) newWriting() (*writing, error) {
	w := &writing{request: req, codec: req.resource.Codec, validation: req.query.Get("fieldValidation")}
	var err error
	if w.format, err = wire.Negotiate(req.r, wire.Table, wire.Partial); err != nil {
		return nil, err
	}
	dryRun, errs := dryRun(req.query["dryRun"])
	errs = append(errs, w.checkOptions()...)
	w.dryRun = dryRun
	w.manager = w.managerName()
	if w.validation == "" {
		w.validation = metav1.FieldValidationWarn
	}
	return w, invalidOptions(optionsOf[req.verb], errs)
}

// optionsOf are the types of the options of each verb, as errors name them.
var optionsOf = map[string]string{verbCreate: "CreateOptions", verbUpdate: "UpdateOptions", verbPatch: "PatchOptions"}

// checkOptions returns the errors of the options of a write, except dryRun.
func (w *writing) checkOptions() (errs field.ErrorList) {
	manager := w.query.Get("fieldManager")
	switch {
	case w.verb == verbPatch && !w.isApply() && w.query.Has("force"):
		errs = append(errs, field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch"))
	case w.isApply() && manager == "":
		errs = append(errs, field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
	}
	errs = append(errs, validation.ValidateFieldManager(manager, field.NewPath("fieldManager"))...)
	known := []string{"", metav1.FieldValidationIgnore, metav1.FieldValidationStrict, metav1.FieldValidationWarn}
	if !slices.Contains(known, w.validation) {
		errs = append(errs, field.NotSupported(field.NewPath("fieldValidation"), w.validation, known))
	}
	return errs
}

// body reads the body of the request.
func (req *request) body() ([]byte, error) {
	// A connection without deadlines, such as a pipe of a test, has none.
	deadlines := http.NewResponseController(req.w)
	_ = deadlines.SetReadDeadline(time.Now().Add(req.server.cfg.SendTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(req.w, req.r.Body, maxBody))
	if err == nil {
		req.bodyRead = true
		_ = deadlines.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request while it is served
		return body, nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooLarge.Limit))
	}
	return nil, badRequest("the body cannot be read: %v", err)
}

// decode decodes an object of the resource from a body, and checks it by the options and the path.
func (w *writing) decode(body []byte, mediaType string) (kube.Object, error) {
	o, strict, err := w.parse(body, mediaType)
	if err == nil {
		err = w.checkStrict(strict)
	}
	if err == nil {
		err = w.place(o)
	}
	return o, err
}

// parse decodes an object of the resource. strict lists unknown and repeated fields.
func (w *writing) parse(body []byte, mediaType string) (o kube.Object, strict []error, err error) {
	o = w.codec.New()
	strict, err = wire.Decode(body, mediaType, w.codec.GroupVersionKind, o)
	return o, strict, err
}

// checkStrict returns an error for unknown and repeated fields, adds warnings, or ignores them, as the client's
// option fieldValidation says.
func (w *writing) checkStrict(mistakes []error) error {
	switch {
	case len(mistakes) == 0 || w.validation == metav1.FieldValidationIgnore:
		return nil
	case w.validation == metav1.FieldValidationStrict:
		return wire.CannotHandle(w.resource.Kind, w.resource.Kind.Kind, fmt.Errorf("strict decoding error: %v", joined(mistakes)))
	}
	for _, mistake := range mistakes {
		// The mistakes of a YAML document are one error with a line for each.
		for line := range strings.SplitSeq(strings.TrimPrefix(mistake.Error(), "yaml: unmarshal errors:\n"), "\n") {
			w.warn(strings.TrimSpace(line))
		}
	}
	return nil
}

func joined(errs []error) string {
	text := ""
	for i, err := range errs {
		if i > 0 {
			text += ", "
		}
		text += err.Error()
	}
	return text
}

// place sets the namespace and the name of an object from the path. It returns an error if the object has a
// different one.
func (w *writing) place(o kube.Object) error {
	if w.resource.Namespaced {
		if o.GetNamespace() != "" && o.GetNamespace() != w.namespace {
			return badRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		o.SetNamespace(w.namespace)
	} else {
		o.SetNamespace("")
	}
	switch {
	case w.name == "":
		return nil
	case o.GetName() == "":
		return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", w.name)
	case o.GetName() != w.name:
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), w.name)
	}
	o.SetName(w.name)
	return nil
}

// messages are the texts of violations in the words of Kubernetes' API server.
var messages = &kube.Messages{
	Supported: func(words []string) string { return "supported values: " + quoted(words) },
	Version:   "must be a number that the server gave",
}

func quoted(words []string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = strconv.Quote(word)
	}
	return strings.Join(texts, ", ")
}

// read converts an object of Kubernetes to an object of Portolan, and warns of the fields that are lost.
func (w *writing) read(o kube.Object) (object.Object, error) {
	converted, violations := w.codec.Read(o, messages)
	if len(violations) > 0 {
		return nil, apierr.Invalid(w.codec.Kind.Name, o.GetName(), violations)
	}
	if w.validation != metav1.FieldValidationIgnore {
		for _, path := range w.codec.Lost(o, converted) {
			w.warn(path + " is dropped: Portolan does not have it")
		}
	}
	// The registry keeps the stored times, which have fractions of seconds. Kubernetes' types lack these.
	meta := converted.GetMetadata()
	meta.CreationTimestamp, meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = nil, nil, nil
	return converted, nil
}

// newReplacement reads the options of a create or an update, and the object in its body.
func (req *request) newReplacement() (*writing, kube.Object, error) {
	w, err := req.newWriting()
	if err != nil {
		return nil, nil, err
	}
	body, err := req.body()
	if err != nil {
		return nil, nil, err
	}
	o, err := w.decode(body, wire.MediaType(req.r))
	return w, o, err
}

// create creates an object.
func (req *request) create() error {
	w, o, err := req.newReplacement()
	if err != nil {
		return err
	}
	req.name = o.GetName() // for errors
	switch {
	case o.GetName() == "" && o.GetGenerateName() == "":
		return apierrors.NewInvalid(req.resource.Kind.GroupKind(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
	case o.GetResourceVersion() != "":
		return badRequest("resourceVersion should not be set on objects to be created")
	}
	return w.createFrom(o)
}

func (w *writing) createFrom(o kube.Object) error {
	o.SetUID("")
	converted, err := w.read(o)
	if err != nil {
		return err
	}
	if err := w.own(nil, converted, o.GetManagedFields()); err != nil {
		return err
	}
	return w.write(kinds.Create, converted, http.StatusCreated)
}

// write writes an object and answers with the stored object.
func (w *writing) write(verb kinds.Verb, o object.Object, code int) error {
	written, err := w.server.cfg.Registry.Write(w.ctx, w.codec.Kind, verb, o, w.dryRun)
	if err != nil {
		return err
	}
	return w.answer(written, code)
}

func (w *writing) answer(written upstream.Written, code int) error {
	w.warn(written.Warnings...)
	return w.sendObject(code, w.format, written.Object)
}

// verbOfUpdate returns the registry's verb for an update of the resource or of its subresource.
func (w *writing) verbOfUpdate() kinds.Verb {
	if w.subresource == subStatus {
		return kinds.UpdateStatus
	}
	return kinds.Update
}

// update replaces an object, its status, or the finalizers of a namespace.
func (req *request) update() error {
	w, o, err := req.newReplacement()
	if err != nil {
		return err
	}
	uid := o.GetUID()
	if req.subresource == subFinalize {
		if o, err = w.finalized(o); err != nil {
			return err
		}
	}
	converted, err := w.read(o)
	if err != nil {
		return err
	}
	verb := w.verbOfUpdate()
	err = w.replace(converted, uid, o.GetManagedFields(), verb)
	if apierr.IsNotFound(err) && verb == kinds.Update && createsOnUpdate[w.codec.Kind.Name] && o.GetResourceVersion() == "" && uid == "" {
		return w.createFrom(o)
	}
	return err
}

// replace replaces the stored object. An update without a version is repeated if the object changes
// meanwhile, because the owners of the fields were computed from one version.
func (w *writing) replace(o object.Object, uid types.UID, sent []metav1.ManagedFieldsEntry, verb kinds.Verb) error {
	wanted := o.GetMetadata().GetResourceVersion()
	for attempt := 0; ; attempt++ {
		stored, err := w.base(wanted)
		if err != nil {
			return err
		}
		if err := w.checkUID(uid, stored); err != nil {
			return err
		}
		meta := object.MetaOf(o)
		if wanted == 0 {
			meta.ResourceVersion = stored.GetMetadata().GetResourceVersion()
		}
		meta.ManagedFields = nil
		if meta.ResourceVersion == stored.GetMetadata().GetResourceVersion() { // otherwise the write is a conflict
			if err := w.own(stored, o, sent); err != nil {
				return err
			}
		}
		err = w.write(verb, o, http.StatusOK)
		if wanted != 0 || !apierr.IsConflict(err) || attempt == patchAttempts-1 {
			return err
		}
	}
}

// createsOnUpdate lists the kinds for which an update creates an absent object, as in Kubernetes.
var createsOnUpdate = map[string]bool{"Service": true, "Endpoints": true, "Lease": true, "Event": true}

// checkUID returns a conflict if the client sent a UID and the stored object has another one.
func (w *writing) checkUID(want types.UID, stored object.Object) error {
	if have := stored.GetMetadata().GetUid(); want != "" && have != string(want) {
		return apierrors.NewConflict(w.resource.GroupResource(), w.name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", want, have)) //nolint:staticcheck // Kubernetes' words
	}
	return nil
}
