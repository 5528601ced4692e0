package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"portolan.dev/portolan/bench/internal/rig"
)

// measureTurns compares the CPU time of creates by two builds, in short turns on the same machine.
// Other load changes the time of the same work by a factor from one minute to the next, so two whole
// runs cannot be compared.
func (b *bench) measureTurns(ctx context.Context) error {
	if b.against == "" {
		return errors.New("-against FOLDER has the other build")
	}
	bins := []string{b.against, b.rig.Bin}
	installations, spent := make([]*installation, len(bins)), make([]costs, len(bins))
	for n, bin := range bins {
		name := fmt.Sprintf("turns%d", n)
		b.rig.Bin = bin
		var err error
		if installations[n], err = b.install(ctx, name, nil); err != nil {
			return err
		}
	}
	turns := 30
	if b.Quick {
		turns = 10
	}
	for turn := -1; turn < turns; turn++ { // the first only warms up
		for n, i := range installations {
			into := costs{}
			if _, err := b.parts(i).measure(ctx, into, 64, time.Second, i.creator(fmt.Sprint("turn", turn))); err != nil {
				return err
			}
			if turn < 0 {
				spent[n] = costs{}
				continue
			}
			for name, values := range into {
				spent[n][name] = append(spent[n][name], values...)
			}
		}
	}
	fmt.Println("\nCPU per create, 64 clients, in turns:")
	for n, bin := range bins {
		fmt.Printf("%20s: %s\n", bin, spent[n].line(b.parts(installations[n])))
	}
	fmt.Print("of the earlier:")
	for _, part := range b.parts(installations[1]) { // the clients are the same program, so theirs shows the noise
		fmt.Printf(" %s %.3f,", part.name, rig.Quotient(spent[1][part.name], spent[0][part.name]))
	}
	fmt.Printf(" in all %.3f\n", rig.Quotient(spent[1].sums(), spent[0].sums()))
	for _, i := range installations {
		i.Stop()
	}
	return nil
}
