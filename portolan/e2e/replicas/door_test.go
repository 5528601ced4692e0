package replicas

import (
	"io"
	"net"
	"sync"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// door is a proxy with a fixed address. The process behind it can be restarted on another port.
type door struct {
	lis  net.Listener
	wait sync.WaitGroup

	mu     sync.Mutex
	target string // empty: connections are refused
	conns  map[net.Conn]bool
}

func openDoor(t *testing.T) *door {
	t.Helper()
	d := &door{lis: kittest.Listen(t), conns: map[net.Conn]bool{}}
	d.wait.Go(d.accept)
	t.Cleanup(func() {
		_ = d.lis.Close()
		d.leadTo("")
		d.wait.Wait()
	})
	return d
}

func (d *door) addr() string { return d.lis.Addr().String() }

// leadTo sets the address behind the door, "" for none, and closes all connections to the previous
// one.
func (d *door) leadTo(target string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = target
	for conn := range d.conns {
		_ = conn.Close()
	}
}

func (d *door) accept() {
	for {
		conn, err := d.lis.Accept()
		if err != nil {
			return
		}
		d.wait.Go(func() { d.pass(conn) })
	}
}

// pass carries one connection until either side ends it.
func (d *door) pass(in net.Conn) {
	defer in.Close()
	d.mu.Lock()
	target := d.target
	d.mu.Unlock()
	if target == "" {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	if !d.enter(target, in, out) {
		return
	}
	defer d.leave(in, out)
	var back sync.WaitGroup
	back.Go(func() { carry(in, out) })
	carry(out, in)
	back.Wait()
}

func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// enter records connections, unless the door leads elsewhere by now.
func (d *door) enter(target string, conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.target != target {
		return false
	}
	for _, conn := range conns {
		d.conns[conn] = true
	}
	return true
}

func (d *door) leave(conns ...net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range conns {
		delete(d.conns, conn)
	}
}
