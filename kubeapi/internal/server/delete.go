package server

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"portolan.dev/kubeapi/internal/convert"
	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kit/apierr"
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
	deletion.Namespace, deletion.Name = req.namespace, req.name
	last, err := req.server.cfg.Registry.Delete(req.ctx, req.resource.Codec.Kind, deletion)
	if err != nil {
		return err
	}
	if last.GetMetadata().GetDeletionTimestamp() != nil { // it is there until finalizers or the grace period are over
		return req.sendObject(http.StatusOK, format, last)
	}
	format.As = wire.Untransformed
	return req.send(http.StatusOK, format, req.deleted(last))
}

// deleted returns the Status of an object that is gone.
func (req *request) deleted(last object.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{
			Name: last.GetMetadata().GetName(), Group: req.resource.Kind.Group, Kind: req.resource.Plural, UID: req.resource.Codec.Write(last).GetUID(),
		},
	}
}

// deletion reads the options of a deletion, from the body or from the path.
func (req *request) deletion() (upstream.Deletion, error) {
	options, err := req.deleteOptions()
	if err != nil {
		return upstream.Deletion{}, err
	}
	d := upstream.Deletion{Grace: options.GracePeriodSeconds}
	if d.DryRun, err = dryRun(options.DryRun); err != nil {
		return d, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil {
			d.UID = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			if d.Version, err = parseVersion(*p.ResourceVersion); err != nil {
				return d, err
			}
		}
	}
	return d, req.checkPropagation(options)
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
			return nil, badRequest("gracePeriodSeconds: %q is no number of seconds", text)
		}
		options.GracePeriodSeconds = &seconds
	}
	return options, nil
}

// checkPropagation checks what is to happen to the dependents of an object. The registry deletes them in
// the background, so the other policies are a warning or an error.
func (req *request) checkPropagation(options *metav1.DeleteOptions) error {
	orphan := options.OrphanDependents != nil && *options.OrphanDependents //nolint:staticcheck // older clients set it
	policy := metav1.DeletePropagationBackground
	if options.PropagationPolicy != nil {
		policy = *options.PropagationPolicy
	}
	switch {
	case policy == metav1.DeletePropagationForeground:
		req.warn("propagationPolicy: Foreground is not supported: the dependents are deleted in the background")
	case policy != metav1.DeletePropagationBackground || orphan:
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
			field.NotSupported(field.NewPath("propagationPolicy"), metav1.DeletePropagationOrphan, []string{string(metav1.DeletePropagationBackground), string(metav1.DeletePropagationForeground)}),
		})
	}
	return nil
}

// deleteCollection deletes all objects that the selectors of the request select. Each is deleted only if
// it is still the one that was listed.
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
	var deleted []convert.Object
	for _, o := range page.Objects {
		deletion.Namespace, deletion.Name, deletion.UID = o.GetMetadata().GetNamespace(), o.GetMetadata().GetName(), o.GetMetadata().GetUid()
		last, err := req.server.cfg.Registry.Delete(req.ctx, req.resource.Codec.Kind, deletion)
		if apierr.IsNotFound(err) || apierr.IsConflict(err) {
			continue // it is gone, or another one
		}
		if err != nil {
			return err
		}
		deleted = append(deleted, req.resource.Codec.Write(last))
	}
	about := metav1.ListMeta{ResourceVersion: strconv.FormatUint(page.Revision, 10), Continue: page.Next}
	out, err := format.List(req.resource.Kind, deleted, about, req.resource.Codec.NewList(), wire.RowsMetadata)
	if err != nil {
		return err
	}
	return req.send(http.StatusOK, format, out)
}
