package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
)

// measureAnswer measures the time from the commit of a new service in a registry on Postgres,
// through the log, the relay and NATS, to the first answer of a name server. The client sees the
// commit when its call returns, which is a little later. The time from the start of the call, which
// is longer than the time of interest, is therefore printed too.
func (b *bench) measureAnswer(ctx context.Context) error {
	i, err := b.install(ctx, "answers", nil)
	if err != nil {
		return err
	}
	names, err := i.StartFollower(ctx, "dnssvc", "-listen", "127.53.254.4:0", "-lame-duck", "0s")
	if err != nil {
		return err
	}
	if len(names.DNS) == 0 {
		return errors.New("dnssvc does not say where it answers")
	}
	count := 200
	if b.Quick {
		count = 50
	}
	var calls, commits []time.Duration
	for n := range count + 1 {
		call, commit, err := i.untilAnswered(ctx, names.DNS[0], fmt.Sprintf("answer-%d", n))
		if err != nil {
			return err
		}
		if n > 0 { // the first waits until the name server has its snapshot
			calls, commits = append(calls, call), append(commits, commit)
		}
	}
	fmt.Printf("\ncommit to answer, ms: p50 %.2f, p99 %.2f; from the beginning of the call: p50 %.2f, p99 %.2f\n",
		rig.Quantile(commits, 50), rig.Quantile(commits, 99), rig.Quantile(calls, 50), rig.Quantile(calls, 99))
	b.rig.Ratio("commit_to_answer_p50_ms", rig.Quantile(commits, 50), yardstick.AtMost(5))
	b.rig.Ratio("call_to_answer_p50_ms", rig.Quantile(calls, 50), yardstick.Target{})
	i.Stop()
	return nil
}

// untilAnswered creates a service. It returns the time from the start of the call, and from its
// end, until the name has an address. If the answer arrives before the call returns, the second
// time is 0.
func (i *installation) untilAnswered(ctx context.Context, server, name string) (call, commit time.Duration, err error) {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	answered := make(chan error, 1)
	var at time.Time
	go func() {
		err := ask(waiting, server, name+".default.svc.cluster.local.")
		at = time.Now()
		answered <- err
	}()
	_, err = i.services().CreateService(waiting, &registryv1.CreateServiceRequest{Service: service(name, "")})
	returned := time.Now()
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-answered); err != nil {
		return 0, 0, err
	}
	return at.Sub(began), max(0, at.Sub(returned)), nil
}

// ask asks for a name until it has an address.
func ask(ctx context.Context, server, name string) error {
	client := &dns.Client{Timeout: time.Second}
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close()
	for ctx.Err() == nil {
		reply, _, err := client.ExchangeWithConnContext(ctx, new(dns.Msg).SetQuestion(name, dns.TypeA), conn)
		if err == nil && len(reply.Answer) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s has no address: %w", name, ctx.Err())
}
