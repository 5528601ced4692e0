package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kube"
)

const (
	// patchAttempts is the number of times that a patch is applied if the object changes meanwhile, as in
	// Kubernetes.
	patchAttempts = 5
	// maxOperations is the largest number of operations of a JSON patch, as in Kubernetes.
	maxOperations = 10000
	// maxItems is the largest number of items in the lists of a merge patch. A strategic merge compares
	// each item with each other one, which takes a second for this number.
	maxItems = 5000
)

// operation has the fields of an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	From  string `json:"from"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patcher applies a patch to an object in JSON.
type patcher func(original []byte) ([]byte, error)

// patch changes the stored object by a patch.
func (req *request) patch() error {
	w, err := req.newWriting()
	if err != nil {
		return err
	}
	body, err := req.body()
	if err != nil {
		return err
	}
	if req.isApply() {
		return w.apply(body)
	}
	apply, err := w.patcher(body)
	if err != nil {
		return err
	}
	var written upstream.Written
	for attempt := range patchAttempts {
		var repeatable bool
		if written, repeatable, err = w.patchOnce(apply, w.verbOfUpdate()); !repeatable || !apierr.IsConflict(err) || attempt == patchAttempts-1 {
			break
		}
		w.w.Header().Del("Warning")
	}
	if err != nil {
		return err
	}
	return w.answer(written, http.StatusOK)
}

// patcher returns the function of the patch in a body.
func (w *writing) patcher(body []byte) (patcher, error) {
	switch types.PatchType(wire.MediaType(w.r)) {
	case types.JSONPatchType:
		return w.jsonPatcher(body)
	case types.MergePatchType:
		if err := w.checkMerge(body); err != nil {
			return nil, err
		}
		return func(original []byte) ([]byte, error) {
			patched, err := jsonpatch.MergePatch(original, body)
			if err != nil {
				return nil, badRequest("error decoding patch: %v", err)
			}
			return patched, nil
		}, nil
	case types.StrategicMergePatchType:
		if err := w.checkMerge(body); err != nil {
			return nil, err
		}
		return func(original []byte) ([]byte, error) {
			patched, err := strategicpatch.StrategicMergePatch(original, body, w.codec.New())
			if err != nil {
				return nil, w.invalidPatch(err)
			}
			return patched, nil
		}, nil
	}
	return nil, wire.UnsupportedMediaType(string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType))
}

// items returns the number of the items of all lists in a tree.
func items(tree any) (n int) {
	switch node := tree.(type) {
	case map[string]any:
		for _, value := range node {
			n += items(value)
		}
	case []any:
		n = len(node)
		for _, value := range node {
			n += items(value)
		}
	}
	return n
}

// checkMerge checks the size of a merge patch, and that no field appears twice in it.
func (w *writing) checkMerge(body []byte) error {
	if !json.Valid(body) {
		return badRequest("invalid JSON patch")
	}
	var tree map[string]any
	strict, err := kjson.UnmarshalStrict(body, &tree)
	switch {
	case err != nil:
		return badRequest("error decoding patch: %v", err)
	case items(tree) > maxItems:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum of list items in a merge patch is %d, got %d", maxItems, items(tree)))
	case len(strict) > 0 && w.validation == metav1.FieldValidationStrict:
		return invalidResult(body, fmt.Errorf("strict decoding error: %v", joined(strict)))
	}
	return w.checkStrict(strict)
}

// invalidPatch returns the error for a patch that cannot be applied.
func (w *writing) invalidPatch(err error) error {
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		return err
	}
	return badRequest("%v", err)
}

func (w *writing) jsonPatcher(body []byte) (patcher, error) {
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, badRequest("error decoding patch: %v", err)
	}
	var known []operation
	if strict, err := kjson.UnmarshalStrict(body, &known); err == nil && len(strict) > 0 && w.validation == metav1.FieldValidationStrict {
		return nil, invalidResult(body, fmt.Errorf("strict decoding error: %v", joined(strict)))
	}
	if len(operations) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(operations)))
	}
	return func(original []byte) ([]byte, error) {
		patched, err := operations.Apply(original)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, nil
	}, nil
}

// patchOnce applies a patch to the stored object. repeatable reports that the patch does not name another
// version of the object, so that it can be applied again after a conflict.
func (w *writing) patchOnce(apply patcher, verb kinds.Verb) (written upstream.Written, repeatable bool, err error) {
	base, err := w.newest()
	if err != nil {
		return written, false, err
	}
	stored := w.codec.Write(base)
	original, err := json.Marshal(stored)
	if err != nil {
		return written, false, err
	}
	text, err := apply(original)
	if err != nil {
		return written, false, err
	}
	if len(text) > maxBody {
		return written, false, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the patched object has %d bytes; limit is %d", len(text), maxBody))
	}
	patched, err := w.decodePatched(text)
	if err != nil {
		return written, false, err
	}
	if repeatable, err = w.checkPatched(stored, patched); err != nil {
		return written, false, err
	}
	converted, err := w.read(patched)
	if err != nil {
		return written, false, err
	}
	if repeatable { // otherwise the write is a conflict
		if err := w.own(base, converted, patched.GetManagedFields()); err != nil {
			return written, false, err
		}
	}
	written, err = w.server.cfg.Registry.Write(w.ctx, w.codec.Kind, verb, converted, w.dryRun)
	return written, repeatable, err
}

// decodePatched decodes the patched object. Its errors name the field patch.
func (w *writing) decodePatched(text []byte) (kube.Object, error) {
	patched, strict, err := w.parse(text, wire.JSON)
	if err == nil && w.validation == metav1.FieldValidationStrict && len(strict) > 0 {
		err = fmt.Errorf("strict decoding error: %v", joined(strict))
	}
	if err != nil {
		return nil, invalidResult(text, err)
	}
	if err := w.checkStrict(strict); err != nil {
		return nil, err
	}
	return patched, w.place(patched)
}

// maxQuote is the largest part of an object, in bytes, that the error of its patch quotes.
const maxQuote = 1 << 10

func invalidResult(text []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), strings.ToValidUTF8(string(text[:min(len(text), maxQuote)]), ""), err.Error()),
	})
}

// checkPatched returns an error if the patch changes the UID. A patch that removes the UID or the version
// keeps the stored one. repeatable reports whether patched has the version of the stored object.
func (w *writing) checkPatched(stored, patched kube.Object) (repeatable bool, err error) {
	if patched.GetUID() == "" {
		patched.SetUID(stored.GetUID())
	}
	if patched.GetUID() != stored.GetUID() {
		return false, apierrors.NewInvalid(w.resource.Kind.GroupKind(), w.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), patched.GetUID(), "field is immutable"),
		})
	}
	if patched.GetResourceVersion() == "" {
		patched.SetResourceVersion(stored.GetResourceVersion())
	}
	return patched.GetResourceVersion() == stored.GetResourceVersion(), nil
}
