package backup

import (
	"crypto/sha256"
	"hash"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	format       = 1
	batchObjects = 200
	batchBytes   = 1 << 20
)

// checksum is the SHA-256 of the deterministic encodings of objects.
type checksum struct {
	hash    hash.Hash
	objects uint64
}

func newChecksum() *checksum { return &checksum{hash: sha256.New()} }

// add adds an object and returns the size of its encoding.
func (c *checksum) add(envelope *corev1.Object) (int, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(envelope)
	if err != nil {
		return 0, err
	}
	c.hash.Write(encoded) // never fails
	c.objects++
	return len(encoded), nil
}

// Origin is the origin of a backup.
type Origin struct {
	Revision     uint64 // at which all objects are
	Version      string // of the registry
	Installation string // its identity
}

// Write sends a backup of objects. It leaves out the Leases of values at hand.
func Write(from Origin, objects iter.Seq2[object.Object, error], send func(*registryv1.BackupRecord) error) error {
	header := &registryv1.BackupHeader{
		Format: format, Revision: from.Revision, Time: timestamppb.New(time.Now()), Version: from.Version, Installation: from.Installation,
	}
	if err := send(&registryv1.BackupRecord{Record: &registryv1.BackupRecord_Header{Header: header}}); err != nil {
		return err
	}
	sum, batch, bytes := newChecksum(), []*corev1.Object(nil), 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		record := &registryv1.BackupRecord{Record: &registryv1.BackupRecord_Objects{Objects: &registryv1.BackupObjects{Objects: batch}}}
		batch, bytes = nil, 0
		return send(record)
	}
	for o, err := range objects {
		if err != nil {
			return err
		}
		if lease, ok := o.(*corev1.Lease); ok && spec.IsReserveLease(lease) {
			continue
		}
		envelope := object.Wrap(o)
		size, err := sum.add(envelope)
		if err != nil {
			return err
		}
		batch, bytes = append(batch, envelope), bytes+size
		if len(batch) == batchObjects || bytes >= batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	trailer := &registryv1.BackupTrailer{Objects: sum.objects, Sha256: sum.hash.Sum(nil)}
	return send(&registryv1.BackupRecord{Record: &registryv1.BackupRecord_Trailer{Trailer: trailer}})
}
