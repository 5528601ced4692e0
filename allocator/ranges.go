package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// poolRange is a range of the configuration.
type poolRange struct {
	flag  string
	base  string // start of the pool's name
	use   allocatorv1.Use
	text  string
	ports bool
}

// ranges returns the ranges of the configuration.
func (c *Config) ranges() []poolRange {
	var all []poolRange
	add := func(flag, base string, use allocatorv1.Use, prefixes []netip.Prefix) {
		for _, p := range prefixes {
			family := "ipv6"
			if p.Addr().Is4() {
				family = "ipv4"
			}
			all = append(all, poolRange{flag: flag, base: base + "-" + family, use: use, text: p.String()})
		}
	}
	add("service-cidr", "service", allocatorv1.Use_USE_CLUSTER_IP, c.ServiceCIDR)
	add("pod-cidr", "pod", allocatorv1.Use_USE_POD_IP, c.PodCIDR)
	add("load-balancer-pool", "load-balancer", allocatorv1.Use_USE_LOAD_BALANCER_IP, c.LoadBalancerPool)
	return append(all, poolRange{
		flag: "node-port-range", base: "node-port", use: allocatorv1.Use_USE_NODE_PORT, text: c.NodePortRange, ports: true,
	})
}

// ensurePools creates or enlarges the pools of the configuration.
func ensurePools(ctx context.Context, e *engine.Engine, cfg *Config, log *slog.Logger) error {
	for _, r := range cfg.ranges() {
		err := ensurePool(ctx, e, r, log)
		for n := 1; n < ensureAttempts && apierr.IsAlreadyExists(err); n++ {
			err = ensurePool(ctx, e, r, log) // another replica started at the same time
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.flag, r.text, err)
		}
	}
	return nil
}

// ensureAttempts is how often ensurePools tries to find or create a pool.
const ensureAttempts = 3

func ensurePool(ctx context.Context, e *engine.Engine, r poolRange, log *slog.Logger) error {
	want, err := pool.Parse(r.text)
	if err != nil {
		return err
	}
	pools := e.Pools()
	for _, p := range pools {
		have, err := pool.Parse(p.Range)
		switch {
		case err != nil:
			return err
		case p.Use != r.use:
		case have.String() == want.String():
			return nil
		case have.Contains(want):
			log.Warn("pool is larger than configured and stays so", "pool", p.Name, "range", p.Range, "configured", r.text)
			return nil
		case want.Contains(have):
			log.Info("pool grows", "pool", p.Name, "from", p.Range, "to", r.text)
			grown := p.Pool
			grown.Range = r.text
			_, err := e.UpdatePool(ctx, grown)
			return err
		}
	}
	fresh := store.Pool{Name: freeName(r.base, pools), Use: r.use, Range: r.text}
	log.Info("pool created", "pool", fresh.Name, "range", r.text)
	_, err = e.CreatePool(ctx, fresh)
	return err
}

// freeName returns base, or base-2, base-3, … if other pools have that name.
func freeName(base string, pools []allocation.PoolStatus) string {
	taken := map[string]bool{}
	for _, p := range pools {
		taken[p.Name] = true
	}
	name := base
	for n := 2; taken[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}
