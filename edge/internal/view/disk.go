package view

import (
	"errors"
	"slices"
	"time"

	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/object"
)

// Save writes the view to path atomically. The file has the keys of certificates, and only its owner
// may read it.
func (v *View) Save(path string) error {
	objects, revision := v.objects()
	return viewfile.Save(path, v.node, revision, slices.Values(objects))
}

func (v *View) objects() ([]object.Object, uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []object.Object
	for _, s := range v.services {
		out = append(out, s)
	}
	for name, of := range v.slices {
		if v.services[name] == nil {
			continue // the snapshot of the registry has it if the service comes
		}
		for _, s := range of {
			out = append(out, s)
		}
	}
	for _, s := range v.certs {
		out = append(out, s)
	}
	if v.self != nil {
		out = append(out, v.self)
	}
	return out, v.revision
}

// Load fills an empty view from path and returns its revision of the log, and the time at which the file
// was known to be current.
// If the file is missing, the error is fs.ErrNotExist. If it is damaged or of another node, Load
// returns an error and the view stays empty.
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
		v.put(o)
	}
	v.revision = file.Revision
	return file.Revision, file.At, nil
}
