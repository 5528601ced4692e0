package server

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// delete deletes one object.
func (req *request) delete() error {
	format, err := wire.Negotiate(req.r, wire.Table, wire.Partial)
	if err != nil {
		return err
	}
	deletion, err := req.deletion()
	if err != nil {
		return err
	}
	deletion.Key = object.Key{Kind: req.resource.Codec.Kind.Name, Namespace: req.namespace, Name: req.name}
	last, err := req.server.cfg.Registry.Delete(req.ctx, deletion)
	if err != nil {
		return err
	}
	// An object with a deletion timestamp exists until its finalizers are removed or its grace period ends.
	if last.GetMetadata().GetDeletionTimestamp() != nil || returnsDeleted[req.resource.Codec.Kind.Name] {
		return req.sendObject(http.StatusOK, format, last)
	}
	format.As = wire.Untransformed
	return req.send(http.StatusOK, format, req.deleted(last))
}

// returnsDeleted lists the kinds for which a deletion is answered with the object, as in Kubernetes.
var returnsDeleted = map[string]bool{"Pod": true, "Service": true}

// deleted returns the Status for an object that no longer exists.
func (req *request) deleted(last object.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: last.GetMetadata().GetName(), Group: req.resource.Kind.Group, Kind: req.resource.Plural, UID: req.resource.Codec.Write(last).GetUID(),
		},
	}
}

// deletion reads the options of a deletion, from the body or from the path.
func (req *request) deletion() (client.Deletion, error) {
	options, err := req.deleteOptions()
	if err != nil {
		return client.Deletion{}, err
	}
	d := client.Deletion{Grace: options.GracePeriodSeconds}
	var errs field.ErrorList
	d.DryRun, errs = dryRun(options.DryRun)
	if err := invalidOptions("DeleteOptions", append(errs, checkPropagation(options)...)); err != nil {
		return d, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil {
			d.UID = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			// A version that is not a number cannot be the version of the object.
			if d.Version, err = parseVersion(*p.ResourceVersion); err != nil {
				return d, apierrors.NewConflict(req.resource.GroupResource(), req.name, err)
			}
		}
	}
	if p := options.PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground {
		req.warn("propagationPolicy: Foreground is not supported: the dependents are deleted in the background")
	}
	return d, nil
}

// deleteOptions reads the options of a deletion.
func (req *request) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	body, err := req.body()
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		if err := wire.DecodeOptions(body, wire.MediaType(req.r), options); err != nil {
			return nil, err
		}
		return options, nil
	}
	options.DryRun = req.query["dryRun"]
	if policy := metav1.DeletionPropagation(req.query.Get("propagationPolicy")); policy != "" {
		options.PropagationPolicy = &policy
	}
	if text := req.query.Get("gracePeriodSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		options.GracePeriodSeconds = &seconds
	}
	return options, nil
}

// checkPropagation returns the errors of the options for the dependents of a deleted object. The registry
// deletes dependents in the background, so a client cannot keep them as orphans.
func checkPropagation(options *metav1.DeleteOptions) (errs field.ErrorList) {
	path := field.NewPath("propagationPolicy")
	orphan := options.OrphanDependents != nil && *options.OrphanDependents //nolint:staticcheck // older clients set it
	switch policy := options.PropagationPolicy; {
	case policy != nil && options.OrphanDependents != nil: //nolint:staticcheck // as above
		errs = append(errs, field.Invalid(path, *policy, "orphanDependents and deletionPropagation cannot be both set"))
	case policy != nil && *policy != metav1.DeletePropagationBackground && *policy != metav1.DeletePropagationForeground:
		errs = append(errs, field.NotSupported(path, *policy, []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground}))
	case orphan:
		errs = append(errs, field.Invalid(field.NewPath("orphanDependents"), true, "Portolan deletes the dependents of an object"))
	}
	return errs
}

// deleteCollection lists the objects that the selectors of the request select, and deletes each one that
// still has the same UID.
func (req *request) deleteCollection() error {
	format, err := wire.Negotiate(req.r, wire.Table, wire.PartialList)
	if err != nil {
		return err
	}
	options, err := parseListOptions(req.query, false)
	if err != nil {
		return err
	}
	deletion, err := req.deletion()
	if err != nil {
		return err
	}
	page, err := req.readList(options)
	if err != nil {
		return err
	}
	var deleted []kube.Object
	for _, o := range page.Objects {
		deletion.Key, deletion.UID = object.KeyOf(o), o.GetMetadata().GetUid()
		last, err := req.server.cfg.Registry.Delete(req.ctx, deletion)
		if apierr.IsNotFound(err) || apierr.IsConflict(err) {
			continue // it was deleted, or replaced by another object of the same name
		}
		if err != nil {
			return err
		}
		deleted = append(deleted, req.resource.Codec.Write(last))
	}
	out, err := format.List(req.resource.Kind, deleted, listMeta(page), req.resource.Codec.NewList(), wire.RowsMetadata)
	if err != nil {
		return err
	}
	return req.send(http.StatusOK, format, out)
}
