package kernel

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// drainKey begins the journal's keys of the backends that drain of a server. The
// values are their addresses, with the times at which they have to end.
const drainKey = "draining "

// noteDrains has the journal say which backends of a service drain, so that the
// next process knows them from those that are planned without weight. It is in the
// file after the next Flush.
func (p *Plane) noteDrains(s *service) {
	if s.leaving == 0 && !s.noted {
		return
	}
	key := drainKey + journalKey(s.id.Frontend)
	if s.noted = s.leaving > 0; !s.noted {
		p.journal.Delete(key)
		return
	}
	var value []byte
	for i := range s.backends {
		if b := &s.backends[i]; b.until != 0 {
			value = appendAddr(value, b.addr.Addr())
			value = binary.BigEndian.AppendUint16(value, b.addr.Port())
			value = binary.AppendUvarint(value, uint64(b.until))
		}
	}
	p.journal.Put(key, string(value))
}

// forgetDrains takes a service that is gone out of the journal.
func (p *Plane) forgetDrains(s *service) {
	if s.noted {
		p.journal.Delete(drainKey + journalKey(s.id.Frontend))
		s.noted = false
	}
}

// recallDrains has those backends of a service drain of which the journal says so.
// One that takes traffic was not drained any more.
func (p *Plane) recallDrains(s *service) error {
	value, known := p.journal.Get(drainKey + journalKey(s.id.Frontend))
	s.noted = known
	in := &decoder{rest: value}
	for in.rest != "" && !in.bad {
		addr := netip.AddrPortFrom(in.addr(), uint16(in.byte())<<8|uint16(in.byte()))
		until := time.Unix(0, int64(in.number()))
		if b := s.backend(addr); b != nil && b.weight == 0 {
			s.leave(b, until)
		}
	}
	if in.bad {
		return errors.New("an entry of draining backends makes no sense")
	}
	if s.leaving > 0 || p.unwanted(s) {
		p.watch(s)
	}
	return nil
}
