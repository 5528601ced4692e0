//go:build race

package changes

import (
	"fmt"
	"hash/maphash"

	"google.golang.org/protobuf/proto"

	"portolan.dev/services/object"
)

// seals holds the checksums of a view's objects. The view's lock protects it.
type seals struct{ sums map[object.Object]uint64 }

var sealSeed = maphash.MakeSeed()

// set records the checksum of an object that the view is about to share.
func (s *seals) set(o object.Object) {
	if s.sums == nil {
		s.sums = map[object.Object]uint64{}
	}
	s.sums[o] = sumOf(o)
}

// check panics if an object that leaves the view has changed since it was stored.
func (s *seals) check(o object.Object) {
	if o == nil {
		return
	}
	if sum, ok := s.sums[o]; ok && sum != sumOf(o) {
		panic(fmt.Sprintf("%v was changed while a follower shared it: %v", object.KeyOf(o), o))
	}
	delete(s.sums, o)
}

func sumOf(o object.Object) uint64 {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("%v cannot be marshalled: %v", object.KeyOf(o), err))
	}
	return maphash.Bytes(sealSeed, text)
}
