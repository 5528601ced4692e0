package main

import (
	"context"
	"flag"

	"portolan.dev/portolan/bench/internal/rig"
)

func main() {
	rig.BecomeNATS()
	b := &bench{}
	b.Register("cold,flip,rolling", "")
	flag.Parse()
	rig.Main("bench-endpointctl", func(ctx context.Context) error { return b.Measure(ctx, b.parts) })
}

// bench is one run.
type bench struct {
	rig.Flags
	rig *rig.Rig
}

// parts returns the parts that can be measured.
func (b *bench) parts(r *rig.Rig) map[string]rig.Part {
	b.rig = r
	return map[string]rig.Part{"cold": b.measureCold, "flip": b.measureFlip, "rolling": b.measureRolling}
}
