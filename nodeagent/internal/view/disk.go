package view

import (
	"errors"
	"slices"
	"time"

	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/object"
)

// Save writes the view to path atomically.
func (v *View) Save(path string) error {
	objects, revision := v.objects()
	return viewfile.Save(path, v.node, revision, slices.Values(objects))
}

func (v *View) objects() ([]object.Object, uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []object.Object
	for _, s := range v.services {
		out = append(out, s)
	}
	for _, of := range v.slices {
		for _, s := range of {
			out = append(out, s)
		}
	}
	for _, p := range v.pods {
		out = append(out, p)
	}
	if v.self != nil {
		out = append(out, v.self)
	}
	return out, v.revision
}

// Load fills an empty view from path and returns its revision of the log, and the time at which the file was known to be
// current. The next batch has all services of the file. If the file is missing, the error is
// fs.ErrNotExist. If it is damaged or of another node, Load returns an error and the view stays
// empty.
func (v *View) Load(path string) (revision uint64, at time.Time, err error) {
	file, err := viewfile.Load(path, v.node)
	if err != nil {
		return 0, time.Time{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.complete || v.revision > 0 {
		return 0, time.Time{}, errors.New("the view is not empty")
	}
	for _, o := range file.Objects {
		v.trim(o)
		v.put(o, &ChangedKinds{})
	}
	v.revision = file.Revision
	return file.Revision, file.At, nil
}
