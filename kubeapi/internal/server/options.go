package server

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
		if o.limit, err = strconv.ParseInt(text, 10, 64); err != nil {
			return o, badRequest("%v", err)
		}
		o.limit = max(0, o.limit)
	}
	if text := query.Get("timeoutSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return o, badRequest("%v", err)
		}
		o.timeout = time.Duration(min(max(0, seconds), math.MaxInt32)) * time.Second
	}
	o.bookmarks = boolean(query, "allowWatchBookmarks")
	if query.Has("sendInitialEvents") {
		o.sendInitial = new(boolean(query, "sendInitialEvents"))
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
		return 0, badRequest("%v", field.Invalid(field.NewPath("resourceVersion"), text, err.Error()))
	}
	return revision, nil
}

// check returns an error if options contradict each other. The rules and messages are Kubernetes' own.
func (o *listOptions) check(watch bool) error {
	var errs field.ErrorList
	forbid := func(name, why string) { errs = append(errs, field.Forbidden(field.NewPath(name), why)) }
	notSupported := func(known ...metav1.ResourceVersionMatch) {
		errs = append(errs, field.NotSupported(field.NewPath("resourceVersionMatch"), o.match, known))
	}
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	if watch {
		if o.match != "" && o.sendInitial == nil {
			forbid("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		}
		if o.sendInitial != nil && o.match != notOlder {
			forbid("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
			if o.match != "" {
				notSupported(notOlder)
			}
		}
		if o.page != "" {
			forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
		}
		return invalidOptions("ListOptions", errs)
	}
	if o.sendInitial != nil {
		forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
	}
	if o.match != "" {
		if o.version == "" {
			forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
		}
		if o.page != "" {
			forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
		}
		if o.match != exact && o.match != notOlder {
			notSupported(exact, notOlder, "")
		}
		if o.match == exact && o.version == "0" {
			forbid("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
		}
	}
	if len(errs) == 0 && o.page != "" && o.version != "" && o.version != "0" {
		return badRequest("specifying resource version is not allowed when using continue")
	}
	return invalidOptions("ListOptions", errs)
}

// dryRun reads the option dryRun.
func dryRun(values []string) (dry bool, errs field.ErrorList) {
	if slices.ContainsFunc(values, func(value string) bool { return value != metav1.DryRunAll }) {
		errs = append(errs, field.NotSupported(field.NewPath("dryRun"), values, []string{metav1.DryRunAll}))
	}
	return len(values) > 0, errs
}

// invalidOptions returns the error for options of a type. It returns nil if errs is empty.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// boolean returns the value of a boolean option, and false if it is absent. As in Kubernetes any value but
// false and 0 is true.
func boolean(query url.Values, name string) bool {
	text := strings.ToLower(query.Get(name))
	return query.Has(name) && text != "false" && text != "0"
}
