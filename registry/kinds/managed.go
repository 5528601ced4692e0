package kinds

import (
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// checkManagedBy refuses the labels of the endpoint controller on what people write, because the
// controller would change or delete it as its own. An object that has the label stays changeable:
// the controller made it. A warning instead is what Kubernetes' documentation amounts to; it is
// easily missed, and what was written is gone then.
func checkManagedBy(w World, o, old object.Object) apierr.Violations {
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
