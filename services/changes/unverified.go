package changes

import (
	"crypto/sha256"
	"hash"
	"time"

	"github.com/nats-io/nats.go"
)

// unverified is the range of changes that a follower took from NATS and has not compared with the
// registry's log yet. Changes in between that the follower read from the registry are part of the
// range but not of its digest.
type unverified struct {
	after uint64 // revision before the range; meaningless if taken is empty
	taken []byte // a taken for each revision of the range; the last is from NATS
	sum   hash.Hash
	one   *digester
	since time.Time // arrival of the first change

	digest [sha256.Size]byte // of the last change; here so that it is not allocated for each
}

func newUnverified() unverified { return unverified{sum: sha256.New(), one: newDigester()} }

func (u *unverified) isEmpty() bool { return len(u.taken) == 0 }

// last returns the last revision of the range.
func (u *unverified) last() uint64 { return u.after + uint64(len(u.taken)) }

// hasRoom reports whether a change at a revision fits into the range.
func (u *unverified) hasRoom(revision uint64) bool {
	return u.isEmpty() || revision-u.after <= MaxVerify
}

// add adds the change in a message. subject is the message's subject without the prefix.
func (u *unverified) add(revision uint64, subject string, m *nats.Msg, now time.Time) {
	if u.isEmpty() {
		u.after, u.since = revision-1, now
	}
	for u.last() < revision-1 {
		u.taken = append(u.taken, byte(takenNothing))
	}
	form := takenWhole
	if m.Header.Get(headerElided) == "" {
		u.digest = u.one.whole(revision, subject, m.Data)
	} else {
		nodes, isPod := m.Header[headerNode]
		form, u.digest = takenFact, u.one.fact(revision, subject, first(nodes), isPod)
	}
	u.taken = append(u.taken, byte(form))
	u.sum.Write(u.digest[:])
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// clear empties the range.
func (u *unverified) clear() {
	u.taken = u.taken[:0]
	u.sum.Reset()
}
