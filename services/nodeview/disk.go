package nodeview

import (
	"errors"
	"slices"
	"time"

	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// stepLoad puts an object of the file into the view.
const stepLoad = "load"

// Save writes the view to path atomically. Only the owner of the file may read it, because it may have
// secrets.
func (v *View[T]) Save(path string) error {
	objects, revision := v.objects()
	return viewfile.Save(path, v.opts.Node, revision, slices.Values(objects))
}

// objects returns the objects of the view without the slices of unknown services: they have no effect
// before the snapshot of the registry, which has them if their service exists.
func (v *View[T]) objects() ([]object.Object, uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []object.Object
	for name, svc := range v.services {
		out = append(out, svc)
		for _, s := range v.slices[name] {
			out = append(out, s)
		}
	}
	for _, o := range v.others {
		out = append(out, o)
	}
	if v.self != nil {
		out = append(out, v.self)
	}
	return out, v.revision
}

// Load fills an empty view from path and returns its revision of the log, and the time at which the file
// was known to be current. The next batch has all objects of the file. If the file is missing, the error
// is fs.ErrNotExist. If it is damaged or of another node, Load returns an error and the view stays empty.
func (v *View[T]) Load(path string) (revision uint64, at time.Time, err error) {
	file, err := viewfile.Load(path, v.opts.Node)
	if err != nil {
		return 0, time.Time{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.complete || v.revision > 0 {
		return 0, time.Time{}, errors.New("the view is not empty")
	}
	var changed Changed
	for _, o := range file.Objects {
		v.opts.Guard.Run(stepLoad, guard.Object(object.KeyOf(o)), func() {
			if v.opts.Trim != nil {
				v.opts.Trim(o)
			}
			v.put(o, &changed)
		})
	}
	v.revision, v.changed = file.Revision, changed.Others
	return file.Revision, file.At, nil
}
