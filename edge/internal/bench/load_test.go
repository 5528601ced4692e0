package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// kinds are the kinds of frontends: layer 4 and layer 7, each also with TLS.
var kinds = []string{"tcp", "tls", "http", "https"}

// connections is the number of connections that are in use at once.
const connections = 64

const (
	pingBytes = 128     // of a message that the echo backend repeats
	pageBytes = 1 << 10 // of the body of an answer
	bulkBytes = 1 << 20 // that the echo backend sends for each bulk message
)

// serveEcho repeats messages of pingBytes. A message that begins with B is answered by bulkBytes.
func serveEcho(lis net.Listener) {
	bulk := bytes.Repeat([]byte("0123456789abcdef"), bulkBytes/16)
	serveEach(lis, func(conn net.Conn) error {
		message := make([]byte, pingBytes)
		for {
			if _, err := io.ReadFull(conn, message); err != nil {
				return err
			}
			answer := message
			if message[0] == 'B' {
				answer = bulk
			}
			if _, err := conn.Write(answer); err != nil {
				return err
			}
		}
	})
}

// serveWeb answers every request with the same page.
func serveWeb(lis net.Listener) {
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", pageBytes, strings.Repeat("x", pageBytes))
	serveEach(lis, func(conn net.Conn) error {
		in := bufio.NewReader(conn)
		for {
			for line := ""; line != "\r\n"; {
				var err error
				if line, err = in.ReadString('\n'); err != nil {
					return err
				}
			}
			if _, err := conn.Write(answer); err != nil {
				return err
			}
		}
	})
}

func serveEach(lis net.Listener, serve func(net.Conn) error) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = serve(conn) // the client ends it
		}()
	}
}

// exchange sends a request over a connection and reads the answer.
type exchange func(conn net.Conn, in *bufio.Reader) error

func ping(conn net.Conn, in *bufio.Reader) error { return message(conn, in, 'P', pingBytes) }

func bulk(conn net.Conn, in *bufio.Reader) error { return message(conn, in, 'B', bulkBytes) }

func message(conn net.Conn, in *bufio.Reader, first byte, want int) error {
	request := [pingBytes]byte{first}
	if _, err := conn.Write(request[:]); err != nil {
		return err
	}
	n, err := in.Discard(want)
	if err == nil && n != want {
		err = errors.New("short answer")
	}
	return err
}

// request has about the fields of a browser's request.
var request = []byte("GET /page?q=1 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
	"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n")

func get(conn net.Conn, in *bufio.Reader) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	length := -1
	for n := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		switch {
		case n == 0 && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("the answer is %q", line)
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		case name == "":
			if length != pageBytes {
				return fmt.Errorf("an answer of %d bytes", length)
			}
			_, err := in.Discard(length)
			return err
		}
	}
}

// load is a kind of load.
type load struct {
	kind string // of the frontend
	do   exchange
	// perConnection is the number of exchanges of a connection; 0: all.
	perConnection int
	// session keeps sessions of TLS for later handshakes.
	session bool
}

// dialer returns the function that connects to a proxy.
func (l load) dialer(p *proxy) func() (net.Conn, error) {
	if strings.HasSuffix(l.kind, "s") || l.kind == "tls" {
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}} // the load needs no verified peer
		if l.session {
			config.ClientSessionCache = tls.NewLRUClientSessionCache(connections)
		}
		return func() (net.Conn, error) { return tls.Dial("tcp", p.addrs[l.kind], config) }
	}
	return func() (net.Conn, error) { return net.Dial("tcp", p.addrs[l.kind]) }
}

// run makes n exchanges.
func (l load) run(p *proxy, n int) error {
	dial := l.dialer(p)
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, connections)
	var running sync.WaitGroup
	for range connections {
		running.Go(func() { errs <- l.work(dial, &left) })
	}
	running.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// work makes exchanges over one connection after the other until none is left.
func (l load) work(dial func() (net.Conn, error), left *atomic.Int64) error {
	in := bufio.NewReaderSize(nil, 16<<10)
	for left.Load() > 0 {
		conn, err := dial()
		if err != nil {
			return err
		}
		in.Reset(conn)
		for done := 0; l.perConnection == 0 || done < l.perConnection; done++ {
			if left.Add(-1) < 0 {
				break
			}
			if err := l.do(conn, in); err != nil {
				conn.Close()
				return err
			}
		}
		conn.Close()
	}
	return nil
}
