package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// readBuffer is the size of the read buffer, in bytes. It holds many pipelined questions. A
	// longer message is refused without being stored.
	readBuffer = 4096
	// flushSize is the size of answers, in bytes, that are written although more questions are
	// waiting.
	flushSize = 32 << 10
	// maxConnPending is the number of questions of one connection that may wait for upstream
	// servers. Beyond it the connection is not read.
	maxConnPending = 64
)

// serveTCP serves the connections of a listener, over TLS if config is not nil.
func (s *Server) serveTCP(ctx context.Context, lis net.Listener, config *tls.Config) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := lis.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if conn != nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			// The process is out of file descriptors, or the client has closed the connection. The
			// server continues in both cases.
			s.cfg.Log.Warn("accept", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		client, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		client = netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
		if !s.conns.add(clientOf(client.Addr())) {
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer s.conns.remove(clientOf(client.Addr()))
			if config == nil {
				s.serveConn(ctx, conn, client, byTCP)
			} else {
				s.serveTLS(ctx, tls.Server(conn, config), client)
			}
		})
	}
}

// tcpConn is one TCP connection, plain or over TLS.
type tcpConn struct {
	server    *Server
	conn      net.Conn
	client    netip.AddrPort
	transport int // byTCP or byTLS
	worker    *workerStats
	fast      *fastPath // nil if the fast path is off
	in        *bufio.Reader
	out       []byte // answers that are not written yet

	timed   bool // whether the question being read has a deadline
	pending pendingQueries
	slots   chan struct{} // one place for each waiting question
	mu      sync.Mutex    // serializes writes
}

func (s *Server) serveConn(ctx context.Context, conn net.Conn, client netip.AddrPort, transport int) {
	c := &tcpConn{
		server: s, conn: conn, client: client, transport: transport, worker: s.stats.addWorker(), fast: s.newFastPath(),
		in: bufio.NewReaderSize(conn, readBuffer), slots: make(chan struct{}, maxConnPending),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.stats.retire(c.worker)
	defer c.pending.wg.Wait()
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		packet, err := c.next()
		if err != nil {
			return // The client has closed the connection or was too slow. The answers due are written.
		}
		if err := c.serve(ctx, packet); err != nil {
			return
		}
	}
}

// next returns the next question, which is valid until the following call. It writes answers before
// it waits, so that one system call carries the answers to all questions that arrived together.
func (c *tcpConn) next() ([]byte, error) {
	c.timed = false
	prefix, err := c.peek(2)
	if err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint16(prefix))
	if size > readBuffer-2 {
		return c.nextLong(size)
	}
	frame, err := c.peek(2 + size)
	if err != nil {
		return nil, err
	}
	_, err = c.in.Discard(2 + size) // the bytes were peeked, and stay valid until the next read
	return frame[2:], err
}

// peek returns the next n bytes without consuming them.
func (c *tcpConn) peek(n int) ([]byte, error) {
	if c.in.Buffered() < n {
		if err := c.prepareWait(); err != nil {
			return nil, err
		}
	}
	return c.in.Peek(n)
}

// prepareWait flushes the answers and sets the deadline before the stream waits for the client. A
// question must be complete within the idle timeout, so that a client cannot hold a connection by
// sending a byte now and then.
func (c *tcpConn) prepareWait() error {
	if err := c.flush(); err != nil {
		return err
	}
	if c.timed {
		return nil
	}
	c.timed = true
	return c.conn.SetReadDeadline(time.Now().Add(c.server.cfg.IdleTimeout))
}

// nextLong returns the header of a message that is too long for a question and for the buffer.
func (c *tcpConn) nextLong(size int) ([]byte, error) {
	if err := c.prepareWait(); err != nil {
		return nil, err
	}
	header := make([]byte, headerSize)
	if _, err := c.in.Discard(2); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.in, header); err != nil {
		return nil, err
	}
	_, err := c.in.Discard(size - headerSize)
	return header, err
}

func (c *tcpConn) serve(ctx context.Context, packet []byte) error {
	s := c.server
	if c.fast != nil {
		done, err := c.serveFast(packet)
		if done || err != nil {
			return err
		}
	}
	qtype := questionType(packet)
	if s.cfg.Transfer != nil && isTransfer(qtype) {
		c.worker.count(c.transport, qtype, nil)
		return c.transfer(packet)
	}
	reply, later := s.handle(Query{Packet: packet, Client: c.client, TCP: true}, c.worker)
	switch {
	case later != nil:
		c.worker.count(c.transport, qtype, nil)
		return c.answerLater(ctx, later)
	case reply == nil:
		c.worker.ignored.Add(1)
		return errors.New("not a question") // no client sends such a message
	}
	s.logQuery(transportNames[c.transport], c.client, reply)
	c.worker.count(c.transport, qtype, reply)
	return c.append(reply)
}

// serveFast answers an ordinary question into the buffer of answers that are written together.
func (c *tcpConn) serveFast(packet []byte) (done bool, err error) {
	start := len(c.out)
	out, ok := c.fast.answer(append(c.out, 0, 0), packet, true, c.server.handler.mayRecurse(c.client.Addr()))
	if !ok {
		return false, nil
	}
	reply := out[start+2:]
	binary.BigEndian.PutUint16(out[start:], uint16(len(reply)))
	c.out = out
	c.worker.countFast(c.transport, c.fast, reply)
	c.server.logQuery(transportNames[c.transport], c.client, reply)
	if len(c.out) > flushSize {
		return true, c.flush()
	}
	return true, nil
}

// append adds an answer to the buffer of answers that are written together.
func (c *tcpConn) append(reply []byte) error {
	c.out = binary.BigEndian.AppendUint16(c.out, uint16(len(reply)))
	c.out = append(c.out, reply...)
	if len(c.out) > flushSize {
		return c.flush()
	}
	return nil
}

// answerLater writes an answer out of order, as RFC 7766 allows, so that a slow upstream server
// does not delay later questions.
func (c *tcpConn) answerLater(ctx context.Context, answer func(context.Context) []byte) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	started := c.server.startPending(c.worker, &c.pending, c.client.Addr(), func() {
		defer func() { <-c.slots }()
		reply := answer(ctx)
		c.server.logQuery(transportNames[c.transport], c.client, reply)
		frame := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(reply)), uint16(len(reply)))
		_ = c.write(append(frame, reply...)) // the reader notices a broken connection
	})
	if !started {
		<-c.slots
	}
	return nil
}

func (c *tcpConn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	err := c.write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > 2*flushSize {
		c.out = nil // one long answer must not keep its memory
	}
	return err
}

// write writes within the idle timeout, so that a client that does not read cannot hold a
// connection.
func (c *tcpConn) write(frames []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.server.cfg.IdleTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(frames)
	return err
}
