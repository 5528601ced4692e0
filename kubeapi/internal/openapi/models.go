package openapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Models returns the schemas of all served kinds and of the types in them, by the names of Kubernetes,
// such as io.k8s.api.core.v1.Service, for managedfields.NewTypeConverter. It reads the documents of OpenAPI
// v3, because v2 lacks default values, and the keys of a list's items are incomplete without them. Each call
// decodes the documents again, which takes about 80 ms and 11 MB, so that they take no memory afterwards.
func Models() (map[string]*spec.Schema, error) {
	all := map[string]*spec.Schema{}
	for path, d := range v3() {
		text, err := d.JSON.Content()
		if err != nil {
			return nil, err
		}
		var one struct {
			Components struct{ Schemas map[string]json.RawMessage }
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for name, text := range one.Components.Schemas {
			if all[name] != nil {
				continue // documents share the schemas of metadata
			}
			schema := &spec.Schema{}
			if err := json.Unmarshal(text, schema); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = schema
		}
	}
	return all, nil
}
