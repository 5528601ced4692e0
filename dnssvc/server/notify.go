package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/zone"
	"portolan.dev/services/kit/app"
)

// Notifier tells secondaries that zones have changed (RFC 1996), so that they need not wait for the refresh time of the SOA.
type Notifier struct {
	names func() *zone.Snapshot
	log   *slog.Logger
	hosts []*notified
}

// notified is one secondary.
type notified struct {
	addr    netip.AddrPort
	changed chan struct{} // full when there is something to tell
}

// NewNotifier returns a notifier of hosts.
func NewNotifier(names func() *zone.Snapshot, hosts []netip.AddrPort, log *slog.Logger) *Notifier {
	n := &Notifier{names: names, log: log}
	for _, addr := range hosts {
		n.hosts = append(n.hosts, &notified{addr: addr, changed: make(chan struct{}, 1)})
	}
	return n
}

// Changed says that there is something to tell. It does not wait.
func (n *Notifier) Changed() {
	for _, h := range n.hosts {
		select {
		case h.changed <- struct{}{}:
		default: // it will be told anyway
		}
	}
}

const (
	notifyPause   = time.Second // between two rounds: a secondary that copies zones all the time does nothing else
	notifyTimeout = 2 * time.Second
	notifyTries   = 3
)

// Run tells until ctx is done.
func (n *Notifier) Run(ctx context.Context) error {
	var tasks []app.Task
	for _, h := range n.hosts {
		tasks = append(tasks, app.Task{Name: h.addr.String(), Run: func(ctx context.Context) error { return n.follow(ctx, h) }})
	}
	return app.RunTasks(ctx, tasks...)
}

func (n *Notifier) follow(ctx context.Context, h *notified) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.changed:
		}
		s := n.names()
		for i := range s.Zones {
			if err := n.tell(ctx, h.addr, s, i); err != nil && ctx.Err() == nil {
				n.log.Warn("secondary does not hear of changes", "secondary", h.addr, "zone", zone.Text(s.Zones[i].Name), "err", err)
				break // it will hear of the next change, or look for itself
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(notifyPause):
		}
	}
}

func (n *Notifier) tell(ctx context.Context, addr netip.AddrPort, s *zone.Snapshot, index int) error {
	m := new(dns.Msg).SetNotify(zone.Text(s.Zones[index].Name))
	m.Answer = []dns.RR{soaOf(s, index)}
	client := &dns.Client{Timeout: notifyTimeout}
	var errs []error
	for range notifyTries {
		reply, _, err := client.ExchangeContext(ctx, m, addr.String())
		switch {
		case err == nil && reply.Rcode != dns.RcodeSuccess:
			return errors.New("it answers " + dns.RcodeToString[reply.Rcode])
		case err == nil, ctx.Err() != nil:
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
