package dump

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	"portolan.dev/allocator/store"
)

// Counts are the numbers of pools and allocations in a file.
type Counts struct{ Pools, Allocations int }

// Write writes a snapshot. version is the version of this program. Values in reserves are written as at
// rest since now.
func Write(out io.Writer, s store.Snapshot, version string, now time.Time) (Counts, error) {
	sum := sha256.New()
	lines := json.NewEncoder(io.MultiWriter(out, sum))
	var n Counts
	if err := lines.Encode(record{Header: &header{Format: format, Version: version}}); err != nil {
		return n, err
	}
	for _, p := range s.Pools {
		if err := lines.Encode(record{Pool: fromPool(p)}); err != nil {
			return n, err
		}
		n.Pools++
	}
	for h, err := range s.Allocations {
		if err != nil {
			return n, err
		}
		if err := lines.Encode(record{Allocation: fromAllocation(h, now)}); err != nil {
			return n, err
		}
		n.Allocations++
	}
	return n, json.NewEncoder(out).Encode(record{End: &end{Pools: n.Pools, Allocations: n.Allocations, SHA256: hex.EncodeToString(sum.Sum(nil))}})
}
