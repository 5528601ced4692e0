package changes

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// LoggedChange is a change with its encoding.
type LoggedChange struct {
	// Change is the change. If its object is a Pod, the object is complete, because the message depends
	// on its contents. Objects of other kinds may have only the identity: namespace, name, UID and
	// resource_version.
	*registryv1.Change
	// Payload is the encoding of the change that messages carry. It must be the same bytes at each
	// reading and in every process, because followers compare it with the log by a digest. An
	// encoding made anew does not suffice: the order of a map's entries is random.
	Payload []byte
}

// MaxVerify is the largest number of revisions that one call of Verify compares.
const MaxVerify = 10_000

// taken is the part of a change that a follower took from the stream. Its values are bytes of
// VerifyRequest.taken.
type taken byte

const (
	takenNothing taken = iota // the follower has the change from the registry, or does not have it
	takenWhole                // the message with its payload
	takenFact                 // a message without payload: the fact of the change, and the pod's node
)

// digester computes the digests of changes. It is not safe for concurrent use.
type digester struct {
	hash hash.Hash
	buf  []byte
}

func newDigester() *digester { return &digester{hash: sha256.New()} }

// whole returns the digest of a message with payload. The subject is without the prefix.
func (d *digester) whole(revision uint64, subject string, payload []byte) [sha256.Size]byte {
	return d.sum(takenWhole, revision, subject, payload)
}

// fact returns the digest of a message without payload. It does not cover the contents, because the
// follower reads them from the registry if it needs them, and because a digest of a private pod on
// the stream would let other nodes guess its passwords. node is the value of the header with the
// pod's node. isPod is whether the message has this header.
func (d *digester) fact(revision uint64, subject, node string, isPod bool) [sha256.Size]byte {
	var rest []byte
	if isPod {
		rest = append([]byte{1}, node...)
	}
	return d.sum(takenFact, revision, subject, rest)
}

func (d *digester) sum(form taken, revision uint64, subject string, rest []byte) (sum [sha256.Size]byte) {
	d.buf = append(d.buf[:0], byte(form))
	d.buf = binary.BigEndian.AppendUint64(d.buf, revision)
	d.buf = binary.BigEndian.AppendUint32(d.buf, uint32(len(subject))) // names are short
	d.buf = append(d.buf, subject...)
	d.hash.Reset()
	d.hash.Write(d.buf)
	d.hash.Write(rest)
	d.buf = d.hash.Sum(d.buf[:0])
	copy(sum[:], d.buf)
	return sum
}

// digests are the two digests of a logged change. If the object is private, whole is zero, which is the
// digest of no message. The message of a private object has no payload, and a client that compares digests
// must not find out a password by guessing.
type digests struct {
	revision    uint64
	whole, fact [sha256.Size]byte
}

// of returns the digests of a logged change, or false if its object is of an unknown kind.
func (d *digester) of(change LoggedChange) (digests, bool) {
	o := object.Unwrap(change.GetObject())
	if o == nil {
		return digests{}, false
	}
	pod, isPod := o.(*corev1.Pod)
	revision, subject := change.GetRevision(), subjectOf(object.KeyOf(o))
	one := digests{revision: revision, fact: d.fact(revision, subject, pod.GetSpec().GetNodeName(), isPod)}
	if !isPrivate(o) {
		one.whole = d.whole(revision, subject, change.Payload)
	}
	return one, true
}
