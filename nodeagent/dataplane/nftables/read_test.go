package nftables

import (
	"errors"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/plan"
)

// TestReadSurely checks which of several readings is trusted.
func TestReadSurely(t *testing.T) {
	of := func(ports ...uint16) *tableReader {
		r := &tableReader{servers: map[key]*server{}, sound: true}
		for _, port := range ports {
			at := netip.AddrPortFrom(netip.MustParseAddr("10.96.0.1"), port)
			r.servers[key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}}] = &server{}
		}
		return r
	}
	broken := func(ports ...uint16) *tableReader {
		r := of(ports...)
		r.sound = false
		return r
	}
	mirror := of(1, 2, 3).servers
	failed := errors.New("not read")
	for name, c := range map[string]struct {
		readings []*tableReader
		want     int // the index of the reading that is trusted
		err      error
	}{
		"as in the mirror":               {[]*tableReader{of(1, 2, 3)}, 0, nil},
		"incomplete once":                {[]*tableReader{of(1, 2), of(1, 2, 3)}, 1, nil},
		"incomplete in two ways":         {[]*tableReader{of(1, 2), of(2, 3), of(1, 2, 3)}, 2, nil},
		"really lost":                    {[]*tableReader{of(1, 2), of(1, 2)}, 1, nil},
		"lost after an incomplete list":  {[]*tableReader{of(1), of(1, 2), of(1, 2)}, 2, nil},
		"really contradictory":           {[]*tableReader{broken(1, 2, 3), broken(1, 2, 3)}, 1, nil},
		"a contradiction that goes away": {[]*tableReader{broken(1, 2, 3), of(1, 2, 3)}, 1, nil},
		"an error":                       {[]*tableReader{of(1), nil}, 0, failed},
		"never twice the same": {
			[]*tableReader{of(1), of(2), of(1), of(2), of(1), of(2), of(1), of(2), of(1), of(2)}, 0, errReadingsDiffer,
		},
	} {
		calls := 0
		got, err := readTwice(mirror, func() (*tableReader, error) {
			calls++
			if r := c.readings[calls-1]; r != nil {
				return r, nil
			}
			return nil, failed
		})
		switch {
		case !errors.Is(err, c.err):
			t.Errorf("%s: got %v, want %v", name, err, c.err)
		case err == nil && (got != c.readings[c.want] || calls != c.want+1):
			t.Errorf("%s: trusted another reading after %d calls", name, calls)
		}
	}
}
