package clients

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
)

// nameClient periodically queries a name server for the addresses of random names.
type nameClient struct {
	server   string // host:port
	dial     Dial
	names    []string // fully qualified
	random   *rand.Rand
	recorder *history.Recorder
	interval time.Duration
	timeout  time.Duration
}

func (n *nameClient) run(ctx context.Context) {
	for app.Pause(ctx, n.interval) {
		n.recorder.AddDNSAnswer(n.query(ctx, n.names[n.random.IntN(len(n.names))]))
	}
}

func (n *nameClient) query(ctx context.Context, name string) history.DNSAnswer {
	answer := history.DNSAnswer{Server: n.server, Name: name, Type: "A", Began: time.Now()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeout)
	defer cancel()
	response, err := n.exchange(ctx, new(dns.Msg).SetQuestion(name, dns.TypeA))
	answer.Ended = time.Now()
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Rcode = dns.RcodeToString[response.Rcode]
	for _, record := range response.Answer {
		if r, ok := record.(*dns.A); ok && strings.EqualFold(r.Hdr.Name, name) {
			answer.Records = append(answer.Records, r.A.String())
		}
	}
	slices.Sort(answer.Records)
	return answer
}

func (n *nameClient) exchange(ctx context.Context, question *dns.Msg) (*dns.Msg, error) {
	conn, err := n.dial(ctx, "udp", n.server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(deadlineOf(ctx)); err != nil {
		return nil, err
	}
	c := &dns.Conn{Conn: conn, UDPSize: dns.DefaultMsgSize}
	question.SetEdns0(1232, false)
	if err := c.WriteMsg(question); err != nil {
		return nil, err
	}
	for {
		response, err := c.ReadMsg()
		if err != nil || response.Id == question.Id {
			return response, err
		}
	}
}

// deadlineOf returns the deadline of a context that has one.
func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	return deadline
}
