package kernel

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// drainKey is the prefix of the keys for the draining backends of servers in the progress file. A
// value has the addresses of the backends, each with the end of its drain time.
const drainKey = "draining "

// writeDrains puts the draining backends of a service into the progress file, because the kernel
// does not distinguish them from backends that are planned with weight 0. The next Flush writes the
// entry.
func (p *Plane) writeDrains(s *service) {
	if s.draining == 0 && !s.noted {
		return
	}
	key := drainKey + journalKey(s.id.Frontend)
	if s.noted = s.draining > 0; !s.noted {
		p.progress.Delete(key)
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
	p.progress.Put(key, string(value))
}

// deleteDrains deletes the entry of a removed service.
func (p *Plane) deleteDrains(s *service) {
	if s.noted {
		p.progress.Delete(drainKey + journalKey(s.id.Frontend))
		s.noted = false
	}
}

// readDrains reads the draining backends of a service from the progress file, and marks them as
// draining unless their drain time is over. A backend with a weight takes traffic, so it does not
// drain.
func (p *Plane) readDrains(s *service) error {
	value, known := p.progress.Get(drainKey + journalKey(s.id.Frontend))
	s.noted = known
	in := &decoder{rest: value}
	for in.rest != "" && !in.bad {
		addr := netip.AddrPortFrom(in.addr(), uint16(in.byte())<<8|uint16(in.byte()))
		until := time.Unix(0, int64(in.duration()))
		if b := s.backend(addr); b != nil && b.weight == 0 && until.After(clock()) {
			s.setDraining(b, until)
		}
	}
	if in.bad {
		return errors.New("an entry of draining backends makes no sense")
	}
	if s.draining > 0 || p.unwanted(s) {
		p.watchDraining(s)
	}
	return nil
}
