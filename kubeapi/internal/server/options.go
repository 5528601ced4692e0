package server

import (
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// listOptions are the options of a list or a watch.
type listOptions struct {
	labels, fields string
	limit          int64
	page           string // the token in continue
	version        string // the resource version as the client has it
	revision       uint64 // the same; 0 if it is unset or "0"
	match          metav1.ResourceVersionMatch
	bookmarks      bool
	timeout        time.Duration // 0: the default
	sendInitial    *bool
}

// parseListOptions reads and checks the options of a list or a watch.
func parseListOptions(query url.Values, watch bool) (listOptions, error) {
	o := listOptions{
		labels: query.Get("labelSelector"), fields: query.Get("fieldSelector"), page: query.Get("continue"),
		version: query.Get("resourceVersion"), match: metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")),
	}
	var err error
	if o.revision, err = parseVersion(o.version); err != nil {
		return o, err
	}
	if text := query.Get("limit"); text != "" {
		if o.limit, err = strconv.ParseInt(text, 10, 64); err != nil || o.limit < 0 {
			return o, badRequest("limit: %q is no number", text)
		}
	}
	if text := query.Get("timeoutSeconds"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return o, badRequest("timeoutSeconds: %q is no number of seconds", text)
		}
		o.timeout = time.Duration(seconds) * time.Second // #nosec G115 -- 31 bits
	}
	for name, into := range map[string]func(bool){
		"allowWatchBookmarks": func(v bool) { o.bookmarks = v }, "sendInitialEvents": func(v bool) { o.sendInitial = &v },
	} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return o, badRequest("%s: %q is neither true nor false", name, text)
			}
			into(value)
		}
	}
	return o, o.check(watch)
}

// parseVersion reads a resource version.
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("resourceVersion: %q is no number that the server gave", text)
	}
	return revision, nil
}

// check returns an error for options that contradict each other, as Kubernetes has it.
func (o *listOptions) check(watch bool) error {
	var errs field.ErrorList
	forbid := func(name, why string) { errs = append(errs, field.Forbidden(field.NewPath(name), why)) }
	switch {
	case o.match == "":
	case watch && o.sendInitial == nil:
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	case !watch && o.version == "":
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
	case o.page != "":
		forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
	case o.match != metav1.ResourceVersionMatchExact && o.match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(field.NewPath("resourceVersionMatch"), o.match, []string{"Exact", "NotOlderThan", ""}))
	case o.match == metav1.ResourceVersionMatchExact && o.version == "0":
		forbid("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
	}
	switch {
	case o.sendInitial == nil:
	case !watch:
		forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
	case o.match != metav1.ResourceVersionMatchNotOlderThan:
		forbid("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	if o.page != "" && o.version != "" && o.version != "0" {
		return badRequest("specifying resource version is not allowed when using continue")
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// dryRun reads the option of a write that stores nothing.
func dryRun(values []string) (bool, error) {
	for _, value := range values {
		if value != metav1.DryRunAll {
			return false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "Options"}, "", field.ErrorList{
				field.NotSupported(field.NewPath("dryRun"), value, []string{metav1.DryRunAll}),
			})
		}
	}
	return len(values) > 0, nil
}
