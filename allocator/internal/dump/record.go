package dump

import (
	"fmt"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// format is the number of the format of files.
const format = 1

// record is a line of a file. One of its fields is set.
type record struct {
	Header     *header     `json:"header,omitempty"`
	Pool       *poolLine   `json:"pool,omitempty"`
	Allocation *allocation `json:"allocation,omitempty"`
	End        *end        `json:"end,omitempty"`
}

type header struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the allocator that wrote the file
}

type end struct {
	Pools       int    `json:"pools"`
	Allocations int    `json:"allocations"`
	SHA256      string `json:"sha256"` // of all lines before, in hexadecimal digits
}

type poolLine struct {
	Name          string `json:"name"`
	Use           string `json:"use"`
	Range         string `json:"range"`
	State         string `json:"state"`
	StaticBand    uint64 `json:"staticBand"`
	PerProtocol   bool   `json:"perProtocol,omitempty"`
	AvoidBuggyIPs bool   `json:"avoidBuggyIPs,omitempty"`
}

// allocation is a value with its owner. Times are in milliseconds since 1970.
type allocation struct {
	Value    string  `json:"value"`
	Pool     string  `json:"pool"`
	Owner    owner   `json:"owner"`
	Released int64   `json:"released,omitempty"` // 0: in use
	Claims   []claim `json:"claims,omitempty"`
}

type owner struct {
	UID       string `json:"uid"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

type claim struct {
	Slot      string `json:"slot"`
	Confirmed bool   `json:"confirmed,omitempty"`
	Since     int64  `json:"since"`
}

func fromPool(p store.Pool) *poolLine {
	return &poolLine{Name: p.Name, Use: p.Use.String(), Range: p.Range, State: p.State.String(), StaticBand: p.Band, PerProtocol: p.PerProtocol, AvoidBuggyIPs: p.AvoidBuggyIPs}
}

func (p *poolLine) pool() (store.Pool, error) {
	use, known := allocatorv1.Use_value[p.Use]
	if !known {
		return store.Pool{}, fmt.Errorf("pool %s: the use %q is not known", p.Name, p.Use)
	}
	state, known := allocatorv1.PoolState_value[p.State]
	if !known {
		return store.Pool{}, fmt.Errorf("pool %s: the state %q is not known", p.Name, p.State)
	}
	return store.Pool{Name: p.Name, Use: allocatorv1.Use(use), Range: p.Range, State: allocatorv1.PoolState(state), Band: p.StaticBand, PerProtocol: p.PerProtocol, AvoidBuggyIPs: p.AvoidBuggyIPs}, nil
}

// fromAllocation returns the line of an allocation. A value of a reserve is at rest from now on.
func fromAllocation(h store.Allocation, now time.Time) *allocation {
	if h.Owner.Kind == store.KindReserve && h.Released.IsZero() {
		h.Released, h.Claims = now, nil
	}
	line := &allocation{
		Value: h.Value.String(), Pool: h.Pool, Released: row.Millis(h.Released),
		Owner: owner{UID: h.Owner.UID, Kind: h.Owner.Kind, Namespace: h.Owner.Namespace, Name: h.Owner.Name},
	}
	for _, c := range h.Claims {
		line.Claims = append(line.Claims, claim{Slot: c.Slot, Confirmed: c.Confirmed, Since: row.Millis(c.Since)})
	}
	return line
}

func (a *allocation) allocation() (store.Allocation, error) {
	h := store.Allocation{
		Pool: a.Pool, Released: row.FromMillis(a.Released),
		Owner: store.Owner{UID: a.Owner.UID, Kind: a.Owner.Kind, Namespace: a.Owner.Namespace, Name: a.Owner.Name},
	}
	for _, c := range a.Claims {
		h.Claims = append(h.Claims, store.Claim{Slot: c.Slot, Confirmed: c.Confirmed, Since: row.FromMillis(c.Since)})
	}
	var err error
	h.Value, err = pool.ParseValue(a.Value)
	switch {
	case err != nil:
		return h, fmt.Errorf("value %q is no port and no address", a.Value)
	case h.Owner.UID == "":
		return h, fmt.Errorf("value %s has no owner", h.Value)
	case h.Released.IsZero() == (len(h.Claims) == 0):
		return h, fmt.Errorf("value %s must have claims or a time of release", h.Value)
	}
	return h, nil
}
