package broker

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// Fate is the treatment of one message by a network.
type Fate struct {
	Delay time.Duration
	// Lost messages never arrive.
	Lost bool
	// Twice is true for messages that arrive a second time.
	Twice bool
	// Overtakes is true for messages that may arrive before earlier messages.
	Overtakes bool
}

// Network decides about the next message of a link to a subscriber.
type Network func(link string) Fate

// Options are the settings of a broker.
type Options struct {
	// Network may be nil; then every message arrives at once.
	Network Network
	// MaxMsgs limits the messages of the stream, if it is lower than the stream's own limit; 0 means
	// no limit.
	MaxMsgs int64
}

// Broker is the server. It is safe for concurrent use.
type Broker struct {
	options Options

	mu      sync.Mutex
	clients map[*client]struct{}
	away    bool
	stream  *stream // nil: there is none
	running sync.WaitGroup
}

// New returns a server without streams.
func New(options Options) *Broker {
	return &Broker{options: options, clients: map[*client]struct{}{}}
}

// Dialer connects one client.
type Dialer struct {
	broker *Broker
	name   string
}

// Dialer returns the dialer for the client with this name. The client's link in the network is
// named "nats " and the name.
func (b *Broker) Dialer(name string) Dialer { return Dialer{b, name} }

var errAway = errors.New("the broker is away")

// InProcessConn implements nats.InProcessConnProvider.
func (d Dialer) InProcessConn() (net.Conn, error) {
	b := d.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return nil, errAway
	}
	theirs, ours := pipe()
	c := &client{broker: b, link: "nats " + d.name, conn: ours, subscriptions: map[string]string{}}
	b.clients[c] = struct{}{}
	b.running.Go(c.serve)
	return theirs, nil
}

// Cut ends the connections of a client. Messages on their way to it are lost. An empty name means
// all clients.
func (b *Broker) Cut(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.clients {
		if name == "" || c.link == "nats "+name {
			c.conn.Close()
		}
	}
}

// SetAway ends all connections and refuses new ones, or takes them again.
func (b *Broker) SetAway(away bool) {
	b.mu.Lock()
	b.away = away
	b.mu.Unlock()
	if away {
		b.Cut("")
	}
}

// LoseStream forgets the stream, as a server without a disk does.
func (b *Broker) LoseStream() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = nil
}

// Close ends all connections and waits for their goroutines.
func (b *Broker) Close() {
	b.SetAway(true)
	b.running.Wait()
}

// message is a published message.
type message struct {
	subject, reply string
	header         []byte // as on the wire, with its last empty line; empty: none
	data           []byte
}

func (m message) size() int64 { return int64(len(m.subject) + len(m.header) + len(m.data)) }

// publish handles a message of a client, which is for the stream, a request about the stream, or for
// subscribers.
func (b *Broker) publish(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if api, ok := strings.CutPrefix(m.subject, "$JS.API."); ok {
		b.answer(m, api)
		return
	}
	if b.stream.accepts(m.subject) {
		b.store(m)
		return
	}
	b.route(m)
}

// route delivers a message to all subscribers. The caller holds mu.
func (b *Broker) route(m message) {
	for c := range b.clients {
		c.deliver(m)
	}
}

// matches reports whether a subject matches a pattern with * and >.
func matches(pattern, subject string) bool {
	for {
		p, patternRest, morePattern := strings.Cut(pattern, ".")
		s, subjectRest, moreSubject := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return s != ""
		case p != "*" && p != s:
			return false
		case !morePattern || !moreSubject:
			return morePattern == moreSubject
		}
		pattern, subject = patternRest, subjectRest
	}
}
