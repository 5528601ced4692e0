package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Backup is a backup that was read completely and verified.
type Backup struct {
	Revision     uint64
	Installation string // that it was made of; "" in backups of earlier releases
	Rows         []store.Row
}

// Read reads a backup from the records that recv returns, until recv returns io.EOF. It returns a
// [*DamagedError] if the backup is damaged.
func Read(recv func() (*registryv1.BackupRecord, error)) (*Backup, error) {
	r := &reader{sum: newChecksum(), keys: map[object.Key]bool{}}
	for {
		record, err := recv()
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		if err != nil {
			return nil, err
		}
		if err := r.readRecord(record); err != nil {
			return nil, err
		}
	}
}

// DamagedError is the error of a stream that is not a complete backup.
type DamagedError struct{ Why string }

// Error returns the reason.
func (b *DamagedError) Error() string { return "broken backup: " + b.Why }

func broken(why string, args ...any) error { return &DamagedError{fmt.Sprintf(why, args...)} }

type reader struct {
	backup  *Backup
	sum     *checksum
	keys    map[object.Key]bool
	trailer bool
}

func (r *reader) readRecord(record *registryv1.BackupRecord) error {
	switch part := record.GetRecord().(type) {
	case *registryv1.BackupRecord_Header:
		if r.backup != nil {
			return broken("it has two headers")
		}
		if part.Header.GetFormat() != format {
			return broken("format %d is not known here, only %d", part.Header.GetFormat(), format)
		}
		r.backup = &Backup{Revision: part.Header.GetRevision(), Installation: part.Header.GetInstallation()}
		return nil
	case *registryv1.BackupRecord_Objects:
		if r.backup == nil || r.trailer {
			return broken("objects outside of header and trailer")
		}
		for _, envelope := range part.Objects.GetObjects() {
			if err := r.add(envelope); err != nil {
				return err
			}
		}
		return nil
	case *registryv1.BackupRecord_Trailer:
		if r.backup == nil || r.trailer {
			return broken("a trailer in the wrong place")
		}
		r.trailer = true
		if part.Trailer.GetObjects() != r.sum.objects || !bytes.Equal(part.Trailer.GetSha256(), r.sum.hash.Sum(nil)) {
			return broken("its objects are not those that were written: %d objects, the trailer says %d", r.sum.objects, part.Trailer.GetObjects())
		}
		return nil
	}
	return broken("an unknown record")
}

func (r *reader) add(envelope *corev1.Object) error {
	o := object.Unwrap(envelope)
	if o == nil {
		return broken("an object of an unknown kind")
	}
	if _, err := r.sum.add(envelope); err != nil {
		return err
	}
	key, meta := object.KeyOf(o), o.GetMetadata()
	if r.keys[key] {
		return broken("%s is in it twice", key)
	}
	r.keys[key] = true
	row := store.Row{Key: key, UID: meta.GetUid(), Revision: meta.GetResourceVersion()}
	kind := rules.Of(o)
	if kind.Epoch != nil {
		row.Epoch = kind.Epoch(o)
	}
	if kind.Namespaced == (key.Namespace == "") {
		return broken("%s has the wrong kind of name", key)
	}
	var err error
	if row.Data, err = store.Encode(o); err != nil {
		return err
	}
	if err := store.CheckRestored(row, r.backup.Revision); err != nil {
		return broken("%s", err)
	}
	r.backup.Rows = append(r.backup.Rows, row)
	return nil
}

func (r *reader) finish() (*Backup, error) {
	if !r.trailer {
		return nil, broken("it ends before its trailer")
	}
	if !r.keys[object.Key{Kind: "Namespace", Name: object.DefaultNamespace}] {
		return nil, broken("it lacks the namespace %s, which every registry has", object.DefaultNamespace)
	}
	return r.backup, nil
}
