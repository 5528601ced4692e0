package broker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// greeting is the first line of a server. Clients may send messages of 1 MiB.
const greeting = `INFO {"server_id":"portolan","server_name":"portolan","version":"2.12.0","proto":1,"headers":true,"max_payload":1048576,"jetstream":true}` + "\r\n"

// client is a connection.
type client struct {
	broker *Broker
	link   string
	conn   net.Conn

	// Both are guarded by the broker's mu.

	subscriptions map[string]string // pattern by sid
	last          time.Time         // when the latest message in order arrives
}

// serve reads the commands of the client until the connection ends.
func (c *client) serve() {
	defer c.close()
	if _, err := io.WriteString(c.conn, greeting); err != nil {
		return
	}
	for r := bufio.NewReaderSize(c.conn, 4<<10); ; {
		line, err := r.ReadString('\n')
		if err != nil || c.handle(r, strings.Fields(line)) != nil {
			return
		}
	}
}

func (c *client) close() {
	c.conn.Close()
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	delete(c.broker.clients, c)
}

// handle carries out the command of one line.
func (c *client) handle(r *bufio.Reader, words []string) error {
	if len(words) == 0 {
		return nil
	}
	switch args := words[1:]; words[0] {
	case "PING":
		_, err := io.WriteString(c.conn, "PONG\r\n")
		return err
	case "SUB":
		c.subscribe(args[len(args)-1], args[0])
	case "UNSUB":
		c.subscribe(args[0], "")
	case "PUB", "HPUB":
		m, err := readMessage(r, words[0] == "HPUB", args)
		if err != nil {
			return err
		}
		c.broker.publish(m)
	}
	return nil
}

// subscribe adds a subscription; an empty pattern ends it.
func (c *client) subscribe(sid, pattern string) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if pattern == "" {
		delete(c.subscriptions, sid)
		return
	}
	c.subscriptions[sid] = pattern
}

// readMessage reads the body of "PUB subject [reply] size" or "HPUB subject [reply] header-size
// size".
func readMessage(r *bufio.Reader, headed bool, args []string) (message, error) {
	sizes := 1
	if headed {
		sizes = 2
	}
	m := message{subject: args[0]}
	if len(args) == 2+sizes {
		m.reply = args[1]
	}
	total, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return m, err
	}
	header := 0
	if headed {
		if header, err = strconv.Atoi(args[len(args)-2]); err != nil {
			return m, err
		}
	}
	body := make([]byte, total+2)
	if _, err := io.ReadFull(r, body); err != nil {
		return m, err
	}
	m.header, m.data = body[:header], body[header:total]
	return m, nil
}

// deliver sends a message to the client if it has subscribed to its subject. The caller holds the
// broker's mu.
func (c *client) deliver(m message) {
	for sid, pattern := range c.subscriptions {
		if matches(pattern, m.subject) {
			c.send(encode(sid, m))
		}
	}
}

func encode(sid string, m message) []byte {
	var line string
	if len(m.header) > 0 {
		line = fmt.Sprintf("HMSG %s %s %s %d %d\r\n", m.subject, sid, m.reply, len(m.header), len(m.header)+len(m.data))
	} else {
		line = fmt.Sprintf("MSG %s %s %s %d\r\n", m.subject, sid, m.reply, len(m.data))
	}
	wire := make([]byte, 0, len(line)+len(m.header)+len(m.data)+2)
	wire = append(append(append(wire, line...), m.header...), m.data...)
	return append(wire, "\r\n"...)
}

// send delivers bytes when, and if, the network lets them through.
func (c *client) send(wire []byte) {
	if c.broker.options.Network == nil {
		c.conn.Write(wire) // an error means that the connection is gone, and the message with it
		return
	}
	fate := c.broker.options.Network(c.link)
	if fate.Lost {
		return
	}
	at := time.Now().Add(fate.Delay)
	if !fate.Overtakes {
		if !at.After(c.last) {
			at = c.last.Add(time.Nanosecond)
		}
		c.last = at
	}
	c.sendAt(at, wire)
	if fate.Twice {
		c.sendAt(at.Add(fate.Delay), wire)
	}
}

func (c *client) sendAt(at time.Time, wire []byte) {
	time.AfterFunc(time.Until(at), func() {
		c.conn.Write(wire) // as in send
	})
}
