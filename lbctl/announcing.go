package lbctl

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"portolan.dev/lbctl/announce"
	"portolan.dev/lbctl/internal/controller"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	// wantedPause is the shortest time between two computations of the addresses to announce, which
	// go through all services.
	wantedPause = 20 * time.Millisecond
	// reportPause is the shortest time between two reports of the announcing nodes, and the time after
	// which a report that failed is repeated.
	reportPause = 200 * time.Millisecond
)

// onlyShard is the only shard of lbctl's lease. Its holder leads.
const onlyShard = 0

// openAnnouncer makes the announcer, which does not lead yet.
func (d *Daemon) openAnnouncer(host app.Host) (err error) {
	if d.announcers, err = spec.ParseSelector(d.cfg.AnnounceNodes); err != nil {
		return fmt.Errorf("announce-nodes: %w", err)
	}
	handOver := d.cfg.AnnounceHandover
	if handOver == 0 {
		handOver = -1
	}
	d.announcer = announce.NewServer(announce.ServerOptions{
		Options: announce.Options{AnySubnet: d.cfg.AnnounceAnySubnet, Restart: d.cfg.AnnounceRestart, HandOver: handOver}, Log: host.Log, Metrics: host.Metrics, Changed: d.announced.Send,
		InForce: func() bool { return d.elector.InForce(onlyShard) },
	})
	return nil
}

// runWanted passes the addresses to the announcer whenever services, slices or nodes have changed.
func (d *Daemon) runWanted(ctx context.Context) error {
	var wanted []announce.Wanted
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.changed:
		}
		wanted = announce.Build(announce.Objects{
			Services: d.view.Services(), Slices: d.view.Slices, Nodes: d.view.Nodes(), Selector: d.announcers, Guard: d.guard, Before: wanted,
		})
		d.announcer.SetWanted(wanted)
		if !app.Pause(ctx, wantedPause) {
			return nil
		}
	}
}

// leadAnnouncing decides which node announces each address, and writes the nodes into the services' conditions,
// until ctx is done. The context fences the writes.
func (d *Daemon) leadAnnouncing(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { d.announcer.Lead(ctx) })
	parts.Go(func() { d.reportAnnouncements(ctx) })
	parts.Wait()
}

// reportAnnouncements writes the states of addresses into the services after each change, until ctx is done.
func (d *Daemon) reportAnnouncements(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.announced:
		}
		statuses, leading := d.announcer.Statuses()
		if settled := !slices.ContainsFunc(statuses, isWaiting); leading && settled && d.controller.ReportAnnouncements(ctx, announcements(statuses)) {
			d.announced.Send()
		}
		if !app.Pause(ctx, reportPause) {
			return
		}
	}
}

// isWaiting reports whether an address is moving to a node. That takes seconds at most. Metrics count the
// moving addresses, and the conditions of services show only the state after the move.
func isWaiting(s announce.Status) bool { return s.Reason == announce.Waiting }

// announcements joins the states of the addresses of each service. A service counts as announced if
// each of its addresses is.
func announcements(all []announce.Status) map[object.Name]controller.Announcement {
	parts := map[object.Name][]announce.Status{}
	for _, status := range all {
		for _, service := range status.Services {
			parts[service] = append(parts[service], status)
		}
	}
	joined := make(map[object.Name]controller.Announcement, len(parts))
	for service, statuses := range parts {
		joined[service] = join(statuses)
	}
	return joined
}

// join returns the announcement of a service from the states of its addresses.
func join(statuses []announce.Status) controller.Announcement {
	a := controller.Announcement{Announced: true, Reason: string(announce.Announced)}
	all := make([]spec.Announced, len(statuses))
	for i, status := range statuses {
		all[i] = spec.Announced{Address: status.Address.String(), Node: status.Node}
		if status.Reason != announce.Announced {
			a.Announced, a.Reason = false, string(status.Reason)
			all[i].Node, all[i].Why = "", status.Message
		}
	}
	a.Message = spec.AnnouncedMessage(all)
	return a
}
