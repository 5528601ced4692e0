package kernel

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/plan"
)

// A record is a frontend in the journal: the properties that cannot be read back from the kernel,
// which are all except the backends. Draining backends have entries of their own, because the
// kernel does not distinguish them from backends that are planned with weight 0.

// journalKey returns the journal's key of a frontend.
func journalKey(f plan.Frontend) string {
	var b [32]byte
	return string(appendFrontend(b[:0], f))
}

func appendFrontend(b []byte, f plan.Frontend) []byte {
	b = appendAddr(b, f.Addr.Addr())
	b = binary.BigEndian.AppendUint16(b, f.Addr.Port())
	return append(b, byte(f.Protocol))
}

func appendAddr(b []byte, a netip.Addr) []byte {
	switch {
	case a.Is4():
		v4 := a.As4()
		return append(append(b, 4), v4[:]...)
	case a.Is6():
		v6 := a.As16()
		return append(append(b, 16), v6[:]...)
	}
	return append(b, 0)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendRecord encodes a frontend.
func (f *frontendState) appendRecord(b []byte) []byte {
	b = appendAddr(b, f.standIn)
	b = binary.AppendUvarint(b, uint64(f.drain()))
	for _, v := range f.servers {
		if v != nil {
			b = append(b, byte(v.Audience))
			b = appendAttributes(b, &v.Attributes)
		}
	}
	return b
}

func appendAttributes(b []byte, a *plan.Attributes) []byte {
	b = appendText(b, a.Service.Namespace)
	b = appendText(b, a.Service.Name)
	b = appendText(b, a.PortName)
	restricted := byte(0)
	if a.Restricted {
		restricted = 1
	}
	b = append(b, byte(a.Exposure), byte(a.Scheduler), byte(a.Flags), byte(a.WithoutBackends), byte(a.Masquerade), restricted)
	b = binary.AppendUvarint(b, uint64(a.Affinity))
	b = binary.AppendUvarint(b, uint64(a.Drain))
	return appendPrefixes(b, a.Allowed)
}

// readRecord decodes a frontend.
func readRecord(key, value string) (*frontendState, error) {
	in := &decoder{rest: key}
	f := &frontendState{at: plan.Frontend{Addr: netip.AddrPortFrom(in.addr(), uint16(in.byte())<<8|uint16(in.byte())), Protocol: plan.Protocol(in.byte())}}
	in.end()
	in.rest = value
	f.standIn = in.addr()
	f.lastDrain = in.duration()
	for in.rest != "" && !in.bad {
		v := &plan.VirtualServer{Key: plan.Key{Frontend: f.at, Audience: plan.Audience(in.byte())}}
		in.attributes(&v.Attributes)
		if int(v.Audience) >= len(f.servers) {
			in.bad = true
			break
		}
		f.servers[v.Audience] = v
	}
	if in.bad {
		return nil, errors.New("an entry makes no sense")
	}
	return f, nil
}

// decoder decodes records. It sets bad if the data is invalid.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) end() { d.bad = d.bad || d.rest != "" }

func (d *decoder) readBytes(n uint64) string {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) byte() byte {
	if s := d.readBytes(1); s != "" {
		return s[0]
	}
	return 0
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint([]byte(d.rest[:min(len(d.rest), binary.MaxVarintLen64)]))
	d.bad = d.bad || n <= 0
	d.readBytes(uint64(max(n, 0)))
	return v
}

// duration reads a duration, which is never negative.
func (d *decoder) duration() time.Duration {
	v := d.number()
	d.bad = d.bad || v > math.MaxInt64
	return time.Duration(v)
}

func (d *decoder) text() string { return d.readBytes(d.number()) }

func (d *decoder) addr() netip.Addr {
	size := d.byte()
	a, ok := netip.AddrFromSlice([]byte(d.readBytes(uint64(size))))
	d.bad = d.bad || !ok && size != 0
	return a
}

func (d *decoder) attributes(a *plan.Attributes) {
	a.Service.Namespace, a.Service.Name, a.PortName = d.text(), d.text(), d.text()
	a.Exposure, a.Scheduler, a.Flags = plan.Exposure(d.byte()), plan.Scheduler(d.byte()), plan.Flags(d.byte())
	a.WithoutBackends, a.Masquerade = plan.NoBackendsAction(d.byte()), plan.Masquerade(d.byte())
	a.Restricted = d.byte() == 1
	a.Affinity, a.Drain = d.duration(), d.duration()
	a.Allowed = d.prefixes()
}

// appendSources encodes the sources.
func appendSources(b []byte, s *plan.Sources) []byte {
	return appendPrefixes(appendPrefixes(b, s.Pods), s.Node)
}

func readSources(value string, s *plan.Sources) error {
	in := &decoder{rest: value}
	s.Pods, s.Node = in.prefixes(), in.prefixes()
	if in.end(); in.bad {
		return errors.New("the sources make no sense")
	}
	return nil
}

func appendPrefixes(b []byte, list []netip.Prefix) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, p := range list {
		b = append(appendAddr(b, p.Addr()), byte(p.Bits()))
	}
	return b
}

func (d *decoder) prefixes() (out []netip.Prefix) {
	for n := d.number(); n > 0 && !d.bad; n-- {
		addr, bits := d.addr(), d.byte()
		p := netip.PrefixFrom(addr, int(bits))
		d.bad = d.bad || !p.IsValid()
		out = append(out, p)
	}
	return out
}
