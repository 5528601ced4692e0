package rules

import (
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// checkManagedBy refuses the label of the endpoint controller on objects that people write, because
// the controller would change or delete the object as its own. An object that already has the label
// stays changeable, because the controller created it. Kubernetes documents the label with a
// warning only; a warning is easily missed, and the object is lost then.
func checkManagedBy(w Context, o, old object.Object) apierr.Violations {
	var found apierr.Violations
	key, value, marked := spec.ControllerLabel(o)
	if !marked || w.ByController {
		return nil
	}
	if old != nil {
		if _, before, was := spec.ControllerLabel(old); was && before == value {
			return nil
		}
	}
	found.Add("metadata.labels["+key+"]", apierr.ReasonForbidden,
		"forbidden: %q marks what the endpoint controller makes, changes and deletes; use a value of your own, such as \"staff\"", value)
	return found
}
