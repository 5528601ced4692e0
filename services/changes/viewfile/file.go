package viewfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/object"
)

// The file begins with a line that names its format and the owner. Batches of objects follow, each
// preceded by its length. The last batch is marked complete and has the number of all objects. At
// the end is a checksum of all bytes before it.
const (
	fileForm  = "portolan-view 1"
	batchSize = 256
	// maxHeader and maxBatch are the largest accepted lengths of the first line and of a batch, in
	// bytes.
	maxHeader = 1 << 10
	maxBatch  = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Contents are the contents of a file.
type Contents struct {
	Objects  []object.Object
	Revision uint64    // of the log
	At       time.Time // time when they were last known to be current
}

// Save writes the objects of a revision to path. It replaces the file atomically.
func Save(path, owner string, revision uint64, objects iter.Seq[object.Object]) error {
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	defer f.Discard()
	if err := write(f, owner, revision, objects); err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	if err := f.Commit(); err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

func write(f io.Writer, owner string, revision uint64, objects iter.Seq[object.Object]) error {
	sum := crc32.New(castagnoli)
	w := &writer{out: bufio.NewWriter(io.MultiWriter(f, sum))}
	if _, err := fmt.Fprintf(w.out, "%s %s\n", fileForm, owner); err != nil {
		return err
	}
	batch := &registryv1.SnapshotResponse{Revision: revision}
	for o := range objects {
		if len(batch.GetObjects()) == batchSize {
			if err := w.write(batch); err != nil {
				return err
			}
			batch.Objects = batch.GetObjects()[:0]
		}
		batch.Objects = append(batch.GetObjects(), object.Wrap(o))
		batch.Total++
	}
	batch.Complete = true
	if err := w.write(batch); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := f.Write(sum.Sum(nil))
	return err
}

// writer writes batches. It uses one buffer for all of them, so that saving does not double the
// memory of the daemon.
type writer struct {
	out *bufio.Writer
	buf []byte
}

func (w *writer) write(batch *registryv1.SnapshotResponse) error {
	size := batch.SizeVT()
	w.buf = slices.Grow(binary.AppendUvarint(w.buf[:0], uint64(size)), size)
	head := len(w.buf)
	w.buf = w.buf[:head+size]
	if _, err := batch.MarshalToSizedBufferVT(w.buf[head:]); err != nil {
		return err
	}
	_, err := w.out.Write(w.buf)
	return err
}

// Load reads the file of an owner. If there is no file, the error is fs.ErrNotExist.
func Load(path, owner string) (Contents, error) {
	f, err := os.Open(path)
	if err != nil {
		return Contents{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Contents{}, err
	}
	objects, revision, err := read(f, owner, info.Size())
	if err != nil {
		return Contents{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Contents{Objects: objects, Revision: revision, At: info.ModTime()}, nil
}

// checksumReader is a reader that computes the checksum of the bytes read.
type checksumReader struct {
	*bufio.Reader
	sum hash.Hash32
}

// Read implements io.Reader.
func (s *checksumReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.sum.Write(p[:n])
	return n, err
}

// ReadByte implements io.ByteReader.
func (s *checksumReader) ReadByte() (byte, error) {
	b, err := s.Reader.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}

// read reads a file of size bytes. A damaged length of a batch is refused by size before memory is
// reserved for it.
func read(f io.Reader, owner string, size int64) ([]object.Object, uint64, error) {
	r := &checksumReader{bufio.NewReader(f), crc32.New(castagnoli)}
	if err := readHeader(r, owner); err != nil {
		return nil, 0, err
	}
	objects, revision, err := readBatches(r, min(size, maxBatch))
	if err != nil {
		return nil, 0, err
	}
	want, end := r.sum.Sum(nil), make([]byte, crc32.Size+1)
	if n, _ := io.ReadFull(r.Reader, end); n != crc32.Size || !bytes.Equal(end[:n], want) {
		return nil, 0, errors.New("damaged: its checksum is another one")
	}
	return objects, revision, nil
}

func readHeader(r *checksumReader, owner string) error {
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
	case of != owner:
		return fmt.Errorf("it is the view of %q, this is %q", of, owner)
	}
	return nil
}

func readBatches(r *checksumReader, maxSize int64) ([]object.Object, uint64, error) {
	var out []object.Object
	for {
		batch := &registryv1.SnapshotResponse{}
		opts := protodelim.UnmarshalOptions{MaxSize: maxSize}
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
