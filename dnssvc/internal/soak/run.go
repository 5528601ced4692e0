package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// Config is the configuration of a run.
type Config struct {
	Model   *Model
	Addr    string // of the server, by UDP
	Queries int
	Clients int
	// Apply makes changes. It returns once all answers derive from them. Changers call it
	// concurrently.
	Apply func(put, remove []object.Object) error
	// Changers is the number of concurrent changes, each of another service. Default 1.
	Changers int
	// Pace is the time between two changes. If it is 0, changes follow without a pause. Late
	// changes catch up.
	Pace time.Duration
}

// Report is the result of a run without a wrong answer. A wrong answer is returned as an error.
type Report struct {
	// Repeated counts the questions that were sent again because no answer arrived in time.
	Queries, Changes, Repeated int64
	P50, P99                   time.Duration
	Took                       time.Duration
}

// answerTimeout is the time after which a question is repeated, tries how often it is sent.
const (
	answerTimeout = 5 * time.Second
	tries         = 6
)

// Run asks all questions while the data changes.
func Run(ctx context.Context, cfg Config) (Report, error) {
	var r Report
	start := time.Now()
	left := int64(cfg.Queries)
	times := make([][]time.Duration, cfg.Clients)
	asking, done := context.WithCancel(ctx)
	defer done()
	var clients, changers []app.Task
	cfg.Changers = max(cfg.Changers, 1)
	for i := range cfg.Changers {
		changers = append(changers, app.Task{Name: fmt.Sprintf("changer %d", i), Run: func(context.Context) error {
			return change(asking, cfg, i, &r.Changes)
		}})
	}
	for i := range cfg.Clients {
		clients = append(clients, app.Task{Name: fmt.Sprintf("client %d", i), Run: func(ctx context.Context) (err error) {
			times[i], err = ask(ctx, cfg, uint64(i), &left, &r.Repeated)
			return err
		}})
	}
	err := app.RunTasks(ctx,
		app.Task{Name: "changes", Run: func(ctx context.Context) error { return app.RunTasks(ctx, changers...) }},
		app.Task{Name: "clients", Run: func(ctx context.Context) error {
			defer done()
			return app.RunTasks(ctx, clients...)
		}},
	)
	all := slices.Concat(times...)
	slices.Sort(all)
	r.Queries, r.Took = int64(len(all)), time.Since(start)
	if len(all) > 0 {
		r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return r, err
}

// change changes every Changers-th service, starting with number id, until ctx is done.
func change(ctx context.Context, cfg Config, id int, count *int64) error {
	random := rand.New(rand.NewPCG(7, uint64(id)))
	own := (len(cfg.Model.services) - id + cfg.Changers - 1) / cfg.Changers
	pace := cfg.Pace * time.Duration(cfg.Changers)
	next := time.Now()
	for ctx.Err() == nil {
		if err := cfg.Model.Step(id+cfg.Changers*random.IntN(own), cfg.Apply); err != nil {
			return err
		}
		atomic.AddInt64(count, 1)
		if next = next.Add(pace); pace == 0 || time.Until(next) <= 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
	return nil
}

// ask is one client.
func ask(ctx context.Context, cfg Config, id uint64, left, repeated *int64) ([]time.Duration, error) {
	conn, err := net.Dial("udp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(id, 1))
	c := &client{conn: &dns.Conn{Conn: conn}, repeated: repeated}
	var times []time.Duration
	for ctx.Err() == nil && atomic.AddInt64(left, -1) >= 0 {
		q := cfg.Model.Question(random.IntN(len(cfg.Model.services)), len(times))
		start := time.Now()
		reply, err := c.exchange(q)
		if err != nil {
			return times, err
		}
		times = append(times, time.Since(start))
		if err := cfg.Model.Check(q, reply); err != nil {
			return times, err
		}
	}
	return times, nil
}

type client struct {
	conn     *dns.Conn
	repeated *int64
}

// exchange sends a question until an answer arrives.
func (c *client) exchange(q Question) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(q.Name, q.Type)
	var err error
	for range tries {
		m.Id = dns.Id()
		if err = c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
			return nil, err
		}
		if err = c.conn.WriteMsg(m); err != nil {
			return nil, err
		}
		var reply *dns.Msg
		for reply, err = c.conn.ReadMsg(); err == nil; reply, err = c.conn.ReadMsg() {
			if reply.Id == m.Id { // otherwise a late answer to an earlier try
				return reply, nil
			}
		}
		atomic.AddInt64(c.repeated, 1)
	}
	return nil, fmt.Errorf("%s: no answer: %w", q.Name, err)
}
