package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/wake"
)

// Notifier notifies secondaries of changes of the zones (RFC 1996), so that they need not wait for
// the refresh time of the SOA record.
type Notifier struct {
	names       func() *zone.Snapshot
	secondaries []*notifyTarget
}

// notifyTarget is one secondary.
type notifyTarget struct {
	addr    netip.AddrPort
	key     *Key        // signs notifications; nil if they are not signed
	changed wake.Signal // sent when there is a change to notify
	outage  obs.Outage
}

// NewNotifier returns a notifier of secondaries. Their keys must be in keys.
func NewNotifier(names func() *zone.Snapshot, secondaries []Secondary, keys Keys, log *slog.Logger) *Notifier {
	n := &Notifier{names: names}
	for _, s := range secondaries {
		h := &notifyTarget{
			addr: s.Addr, changed: wake.New(),
			outage: obs.Outage{Log: log, Down: "secondary does not hear of changes", Up: "secondary hears of changes again"},
		}
		if key, ok := keys[s.Key]; ok {
			h.key = &key
		}
		n.secondaries = append(n.secondaries, h)
	}
	return n
}

// Changed records that zones have changed. It does not block.
func (n *Notifier) Changed() {
	for _, h := range n.secondaries {
		h.changed.Send()
	}
}

const (
	// notifyPause is the time between two rounds, so that a secondary is not busy copying zones all
	// the time.
	notifyPause   = time.Second
	notifyTimeout = 2 * time.Second
	notifyTries   = 3
)

// Run notifies until ctx is done.
func (n *Notifier) Run(ctx context.Context) error {
	var tasks []app.Task
	for _, h := range n.secondaries {
		tasks = append(tasks, app.Task{Name: h.addr.String(), Run: func(ctx context.Context) error { return n.notifyChanges(ctx, h) }})
	}
	return app.RunTasks(ctx, tasks...)
}

func (n *Notifier) notifyChanges(ctx context.Context, h *notifyTarget) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.changed:
		}
		s := n.names()
		for i := range s.Zones {
			if err := h.notify(ctx, s, i); err != nil && ctx.Err() == nil {
				h.outage.Failed(err, "secondary", h.addr, "zone", zone.Text(s.Zones[i].Name))
				break // the next change is notified too, and the secondary refreshes by itself
			} else if err == nil {
				h.outage.Over("secondary", h.addr)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(notifyPause):
		}
	}
}

// notify notifies the secondary of one zone, up to notifyTries times until it answers.
func (h *notifyTarget) notify(ctx context.Context, s *zone.Snapshot, index int) error {
	client := &dns.Client{Timeout: notifyTimeout}
	if h.key != nil {
		client.TsigSecret = map[string]string{h.key.Name: h.key.secret}
	}
	var errs []error
	for range notifyTries {
		reply, _, err := client.ExchangeContext(ctx, h.notification(s, index), h.addr.String())
		switch {
		case err == nil && reply.Rcode != dns.RcodeSuccess:
			return errors.New("it answers " + dns.RcodeToString[reply.Rcode])
		case err == nil && h.key != nil && reply.IsTsig() == nil:
			return errors.New("its answer is not signed: give it the key " + h.key.Name)
		case err == nil, ctx.Err() != nil:
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notification returns the message for one zone. Each try has its own message, because signing
// changes it.
func (h *notifyTarget) notification(s *zone.Snapshot, index int) *dns.Msg {
	m := new(dns.Msg).SetNotify(zone.Text(s.Zones[index].Name))
	m.Answer = []dns.RR{soaOf(s, s.Zones[index])}
	if h.key != nil {
		m.SetTsig(h.key.Name, h.key.Algorithm, tsigFudge, time.Now().Unix())
	}
	return m
}
