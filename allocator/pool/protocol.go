package pool

import (
	"fmt"
	"slices"
	"time"
)

// Protocol is the protocol of a port. A pool of ports has either one value for each number, which is
// of all protocols, or one for each number and protocol.
type Protocol byte

// Protocols. They are stored.
const (
	AllProtocols Protocol = iota
	TCP
	UDP
	SCTP
)

// Protocols returns the protocols of a pool with one value for each number and protocol.
func Protocols() []Protocol { return []Protocol{TCP, UDP, SCTP} }

func (p Protocol) isKnown() bool { return p >= TCP && p <= SCTP }

// String returns the name of the protocol, such as "UDP".
func (p Protocol) String() string {
	switch p {
	case AllProtocols:
		return ""
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	default:
		return fmt.Sprint("protocol ", byte(p))
	}
}

// PickFor is Pick for a pool with values for each protocol: it returns a number of the best class
// that is not in use for any of the protocols. The class is the worst class of its values. Picking
// for one protocol costs as much as Pick. For several, the numbers that are free for the first one
// are tried in turn; there are at most 65535.
func (p *Pool) PickFor(now time.Time, protocols []Protocol) (number uint16, class Class, err error) {
	p.endRests(now)
	span := p.space.Span()
	for _, band := range []struct {
		from, to      uint64
		free, resting Class
	}{{p.band, span, Upper, UpperResting}, {0, p.band, Lower, LowerResting}} {
		if i, ok := p.freeFor(protocols, band.from, band.to); ok {
			return p.space.Value(i).Port(), band.free, nil
		}
		if i, ok := p.longestRested(protocols, band.from, band.to); ok {
			return p.space.Value(i).Port(), band.resting, nil
		}
	}
	return 0, 0, ErrFull
}

// freeFor returns a number in [from, to) that is free for all the protocols.
func (p *Pool) freeFor(protocols []Protocol, from, to uint64) (uint64, bool) {
	span := p.space.Span()
	section := func(protocol Protocol) uint64 { return uint64(protocol-1) * span }
	first := section(protocols[0])
	start, ok := p.scan(first+from, first+to)
	if !ok {
		return 0, false
	}
	isFree := func(number uint64) bool {
		return !slices.ContainsFunc(protocols[1:], func(o Protocol) bool { return p.blocked.contains(section(o) + number) })
	}
	for _, part := range [][2]uint64{{start, first + to}, {first + from, start}} {
		for i, ok := p.blocked.nextAbsent(part[0], part[1]); ok; i, ok = p.blocked.nextAbsent(i+1, part[1]) {
			if isFree(i - first) {
				return i - first, true
			}
			if i+1 >= part[1] {
				break
			}
		}
	}
	return 0, false
}

// longestRested returns the number in [from, to) that is in use for none of the protocols and of
// which the value that was released last has rested longest.
func (p *Pool) longestRested(protocols []Protocol, from, to uint64) (best uint64, found bool) {
	var oldest time.Time
	span := p.space.Span()
	if len(p.resting) == 0 {
		return 0, false
	}
	for number := from; number < to; number++ {
		last, used := time.Time{}, false
		for _, protocol := range protocols {
			i := uint64(protocol-1)*span + number
			since, rests := p.resting[i]
			used = used || p.blocked.contains(i) && !rests
			if since.After(last) {
				last = since
			}
		}
		if !used && (!found || last.Before(oldest)) {
			best, oldest, found = number, last, true
		}
	}
	return best, found
}
