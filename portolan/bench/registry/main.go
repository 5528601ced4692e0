package main

import (
	"context"
	"flag"

	"portolan.dev/portolan/bench/internal/rig"
)

func main() {
	rig.BecomeNATS()
	b := &bench{}
	b.Register("create,bulk,store,write,list,watch,answer,kernel", "turns")
	flag.StringVar(&b.against, "against", "", "folder of an earlier registry and allocator, which \"turns\" compares with bin")
	plain := flag.Bool("serve-plain", false, "be the server that a list is compared with; used by the command itself")
	flag.Parse()
	rig.Main("bench-registry", func(ctx context.Context) error {
		if *plain {
			return servePlain(ctx)
		}
		return b.Measure(ctx, b.measurements)
	})
}

// bench is one run.
type bench struct {
	rig.Flags
	against  string
	rig      *rig.Rig
	postgres cluster
}

// measurements returns the parts that can be measured.
func (b *bench) measurements(r *rig.Rig) map[string]rig.Part {
	b.rig, b.postgres = r, cluster{r.Postgres}
	return map[string]rig.Part{
		"create": b.measureCreate, "bulk": b.measureBulk, "turns": b.measureTurns, "store": b.measureStore, "write": b.measureWrite, "list": b.measureList, "watch": b.measureWatch, "answer": b.measureAnswer, "kernel": b.measureKernel,
	}
}
