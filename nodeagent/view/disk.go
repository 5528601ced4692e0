package view

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// The file begins with a line that names its form and the node. Then comes what
// the registry would stream as a snapshot: batches of objects, each with its
// length before it, the last one marked complete and telling how many there are.
// At the end is a checksum of all before it. So a file that was cut off
// anywhere, or damaged, or that belongs to another node, is known as such.
const (
	fileForm  = "portolan-view 1"
	batchSize = 256
	// maxHeader and maxBatch bound what is believed of lengths in the file.
	maxHeader = 1 << 10
	maxBatch  = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the view to path, whole or not at all.
func (v *View) Save(path string) error {
	objects, revision := v.objects()
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	err = errors.Join(write(tmp, v.node, objects, revision), tmp.Close())
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

func write(f *os.File, node string, objects []*corev1.Object, revision uint64) error {
	sum := crc32.New(castagnoli)
	w := bufio.NewWriter(io.MultiWriter(f, sum))
	if _, err := fmt.Fprintf(w, "%s %s\n", fileForm, node); err != nil {
		return err
	}
	total := uint64(len(objects))
	var buf []byte // one for all: an agent that has just changed something should not need twice its memory
	for done := false; !done; {
		n := min(batchSize, len(objects))
		done = n == len(objects)
		batch := &registryv1.SnapshotResponse{Revision: revision, Objects: objects[:n], Complete: done, Total: total}
		size := batch.SizeVT()
		buf = slices.Grow(binary.AppendUvarint(buf[:0], uint64(size)), size)
		head := len(buf)
		buf = buf[:head+size]
		if _, err := batch.MarshalToSizedBufferVT(buf[head:]); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		objects = objects[n:]
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := f.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return f.Sync()
}

// Load fills an empty view from path, and returns when the view was last known to
// be current. Everything in it is touched. A missing file is fs.ErrNotExist; a
// file that is damaged or another node's leaves the view empty.
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
	objects, revision, err := read(f, v.node)
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

// summed reads, and keeps the checksum of what was read.
type summed struct {
	*bufio.Reader
	sum hash.Hash32
}

// Read implements io.Reader.
func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.sum.Write(p[:n])
	return n, err
}

// ReadByte implements io.ByteReader.
func (s *summed) ReadByte() (byte, error) {
	b, err := s.Reader.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}

func read(f io.Reader, node string) ([]object.Object, uint64, error) {
	r := &summed{bufio.NewReader(f), crc32.New(castagnoli)}
	if err := readHeader(r, node); err != nil {
		return nil, 0, err
	}
	objects, revision, err := readBatches(r)
	if err != nil {
		return nil, 0, err
	}
	want, end := r.sum.Sum(nil), make([]byte, crc32.Size+1)
	if n, _ := io.ReadFull(r.Reader, end); n != crc32.Size || !bytes.Equal(end[:n], want) {
		return nil, 0, errors.New("damaged: its checksum is another one")
	}
	return objects, revision, nil
}

func readHeader(r *summed, node string) error {
	var line []byte
	for len(line) < maxHeader {
		b, err := r.ReadByte()
		if err != nil {
			return errors.New("cut off in its first line")
		}
		if b == '\n' {
			break
		}
		line = append(line, b)
	}
	switch of, ok := strings.CutPrefix(string(line), fileForm+" "); {
	case !ok:
		return fmt.Errorf("no view of this version: it does not begin with %q", fileForm)
	case of != node:
		return fmt.Errorf("it is the view of node %q, this is node %q", of, node)
	}
	return nil
}

func readBatches(r *summed) ([]object.Object, uint64, error) {
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

// Keeping says how a view is kept on disk.
type Keeping struct {
	Path string
	// Changed tells that the view may have.
	Changed <-chan struct{}
	// Every is the shortest time between two saves, and how often the file is
	// marked as current when nothing changes.
	Every time.Duration
	// Current tells whether the view is known to be what the registry has.
	Current func() bool
	// Report is told what came of each try; a failed one is repeated.
	Report func(error)
}

// Keep saves the view soon after each change, but never taking more than a small
// share of the time, and once more at the end.
func (v *View) Keep(ctx context.Context, o Keeping) error {
	k := keeper{Keeping: o, view: v}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			k.confirm()
		case <-o.Changed:
			for ctx.Err() == nil && k.saved != v.Revision() {
				k.wait(ctx, k.save())
			}
		}
	}
	k.save()
	k.confirm()
	return nil
}

// keeper is the state of Keep.
type keeper struct {
	Keeping
	view  *View
	saved uint64 // revision in the file
}

// save writes what is new, and returns how long to leave the disk alone.
func (k *keeper) save() time.Duration {
	began := time.Now()
	if now := k.view.Revision(); now != k.saved {
		err := k.view.Save(k.Path)
		if err == nil {
			k.saved = now
		}
		k.Report(err)
	}
	return max(k.Every, 20*time.Since(began))
}

// confirm marks the file as current, where it is, so that its age tells how old
// what it says can be, not how long nothing has changed.
func (k *keeper) confirm() {
	if k.saved == 0 || k.saved != k.view.Revision() || !k.Current() {
		return
	}
	now := time.Now()
	if err := os.Chtimes(k.Path, now, now); err != nil {
		k.Report(err)
	}
}

func (k *keeper) wait(ctx context.Context, d time.Duration) {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
}
