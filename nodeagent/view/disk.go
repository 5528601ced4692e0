package view

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// The file is what the registry would stream as a snapshot: batches of objects,
// each with its length before it, the last one marked complete and telling how
// many there are. So a file that was cut off anywhere is known as such.
const batchSize = 256

// maxBatch bounds what is believed of a length in the file.
const maxBatch = 256 << 20

// Save writes the view to path, whole or not at all.
func (v *View) Save(path string) error {
	objects, revision := v.objects()
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	err = errors.Join(write(tmp, objects, revision), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

func (v *View) objects() ([]*corev1.Object, uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []*corev1.Object
	for _, s := range v.services {
		out = append(out, object.Wrap(s))
	}
	for _, of := range v.slices {
		for _, s := range of {
			out = append(out, object.Wrap(s))
		}
	}
	for _, p := range v.pods {
		out = append(out, object.Wrap(p))
	}
	if v.self != nil {
		out = append(out, object.Wrap(v.self))
	}
	return out, v.revision
}

func write(f *os.File, objects []*corev1.Object, revision uint64) error {
	w := bufio.NewWriter(f)
	total := uint64(len(objects))
	for done := false; !done; {
		n := min(batchSize, len(objects))
		done = n == len(objects)
		batch := &registryv1.SnapshotResponse{Revision: revision, Objects: objects[:n], Complete: done, Total: total}
		if _, err := protodelim.MarshalTo(w, batch); err != nil {
			return err
		}
		objects = objects[n:]
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// Load fills an empty view from path, and returns when the file was written.
// Everything in it is touched. A missing file is fs.ErrNotExist.
func (v *View) Load(path string) (Touched, time.Time, error) {
	t := Touched{Services: map[plan.ServiceName]struct{}{}}
	f, err := os.Open(path)
	if err != nil {
		return t, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return t, time.Time{}, err
	}
	objects, revision, err := read(f)
	if err != nil {
		return t, time.Time{}, fmt.Errorf("read %s: %w", path, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.complete || v.revision > 0 {
		return t, time.Time{}, errors.New("the view is not empty")
	}
	for _, o := range objects {
		v.put(o, &t)
	}
	v.revision = revision
	return t, info.ModTime(), nil
}

func read(f io.Reader) ([]object.Object, uint64, error) {
	r := bufio.NewReader(f)
	var out []object.Object
	for {
		batch := &registryv1.SnapshotResponse{}
		opts := protodelim.UnmarshalOptions{MaxSize: maxBatch}
		if err := opts.UnmarshalFrom(r, batch); err != nil {
			return nil, 0, fmt.Errorf("cut off or damaged after %d objects: %w", len(out), err)
		}
		for _, wrapped := range batch.GetObjects() {
			if o := object.Unwrap(wrapped); o != nil {
				out = append(out, o)
			}
		}
		if batch.GetComplete() {
			if uint64(len(out)) != batch.GetTotal() {
				return nil, 0, fmt.Errorf("%d objects instead of %d", len(out), batch.GetTotal())
			}
			return out, batch.GetRevision(), nil
		}
	}
}

// Keep saves the view whenever changed tells so: soon after a change, but never
// taking more than a small share of the time, and once more at the end. What
// came of each try is told to report; a failed one is repeated.
func (v *View) Keep(ctx context.Context, path string, changed <-chan struct{}, every time.Duration, report func(error)) error {
	k := keeper{view: v, path: path, every: every, report: report}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-changed:
			for ctx.Err() == nil && k.saved != v.Revision() {
				k.wait(ctx, k.save())
			}
		}
	}
	k.save()
	return nil
}

// keeper is the state of Keep.
type keeper struct {
	view   *View
	path   string
	every  time.Duration
	report func(error)
	saved  uint64 // revision in the file
}

// save writes what is new, and returns how long to leave the disk alone.
func (k *keeper) save() time.Duration {
	began := time.Now()
	if now := k.view.Revision(); now != k.saved {
		err := k.view.Save(k.path)
		if err == nil {
			k.saved = now
		}
		k.report(err)
	}
	return max(k.every, 20*time.Since(began))
}

func (k *keeper) wait(ctx context.Context, d time.Duration) {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
}
