package kubeapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/rpc"
)

// perConn is the number of watches that share one connection.
const perConn = 100

// sentLabel is the label with the time at which a change was sent, in nanoseconds, which have sentDigits
// digits.
const (
	sentLabel  = "sent"
	sentDigits = 19
)

// watchers are open watches of services. Events are counted and not decoded, because the clients share
// the CPUs with the servers. The first watcher also reads the times of its events.
type watchers struct {
	received atomic.Int64
	failed   chan error
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	latency []time.Duration // guarded by mu
}

// way is a way to watch services.
type way struct {
	name string
	// dial opens a connection for perConn watches. open opens a watch on it from a revision, and follow
	// reads its events.
	dial func(i *installation) (open func(ctx context.Context, revision uint64) (stream, error), err error)
}

// stream returns the next message of a watch, and the number of its events.
type stream func() (message []byte, events int, err error)

var ways = []way{
	{"grpc", dialRegistry},
	{"json", func(i *installation) (func(context.Context, uint64) (stream, error), error) {
		return dialKubeAPI(i, "application/json", readLines)
	}},
	{"protobuf", func(i *installation) (func(context.Context, uint64) (stream, error), error) {
		return dialKubeAPI(i, "application/vnd.kubernetes.protobuf;stream=watch", readFrames)
	}},
}

// watch opens watches of services from a revision.
func (i *installation) watch(ctx context.Context, w way, count int, revision uint64) (*watchers, error) {
	all := &watchers{failed: make(chan error, count)}
	ctx, all.cancel = context.WithCancel(ctx)
	var open func(context.Context, uint64) (stream, error)
	for n := range count {
		var err error
		if n%perConn == 0 {
			open, err = w.dial(i)
		}
		var next stream
		if err == nil {
			next, err = open(ctx, revision)
		}
		if err != nil {
			all.cancel()
			return nil, err
		}
		all.wg.Go(func() { all.follow(ctx, next, n == 0) })
	}
	return all, nil
}

func (w *watchers) close() {
	w.cancel()
	w.wg.Wait()
}

// follow counts the events of a watch until ctx is done.
func (w *watchers) follow(ctx context.Context, next stream, timed bool) {
	for {
		message, events, err := next()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.failed <- err
			return
		}
		if timed {
			w.note(message)
		}
		w.received.Add(int64(events))
	}
}

// note adds the latencies of the events of a message.
func (w *watchers) note(message []byte) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		at := bytes.Index(message, []byte(sentLabel))
		if at < 0 {
			return
		}
		message = message[at+len(sentLabel):]
		begin := bytes.IndexAny(message, "0123456789")
		if begin < 0 || len(message) < begin+sentDigits {
			return // the message is cut in the middle of it
		}
		if sent, err := strconv.ParseInt(string(message[begin:begin+sentDigits]), 10, 64); err == nil {
			w.latency = append(w.latency, now.Sub(time.Unix(0, sent)))
		}
	}
}

// await waits until the watchers have received a number of events in all.
func (w *watchers) await(ctx context.Context, events int64) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for w.received.Load() < events {
		select {
		case err := <-w.failed:
			return fmt.Errorf("a watch ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d events: %w", w.received.Load(), events, context.Cause(ctx))
		case <-look.C:
		}
	}
	return nil
}

// asReceived is a codec that decodes nothing.
type asReceived struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c asReceived) Unmarshal(data mem.BufferSlice, v any) error {
	if message, ok := v.(*[]byte); ok {
		*message = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// dialRegistry opens a connection for watches at the registry.
func dialRegistry(i *installation) (func(context.Context, uint64) (stream, error), error) {
	conn, err := rpc.TCP().Dial(i.Registry.Addr)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, revision uint64) (stream, error) {
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		codec := grpc.ForceCodecV2(asReceived{encoding.GetCodecV2("proto")})
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, registryv1.ServiceService_WatchServices_FullMethodName, codec)
		if err == nil {
			err = errors.Join(s.SendMsg(&registryv1.WatchServicesRequest{FromRevision: revision}), s.CloseSend())
		}
		return func() ([]byte, int, error) {
			var message []byte
			if err := s.RecvMsg(&message); err != nil {
				return nil, 0, err
			}
			return message, countChanges(message), nil
		}, err
	}, nil
}

// changesField is the number of the changes in a WatchServicesResponse.
const changesField = 1

// countChanges returns the number of changes in an encoded WatchServicesResponse.
func countChanges(message []byte) (n int) {
	for len(message) > 0 {
		number, _, size := protowire.ConsumeField(message)
		if size < 0 {
			return n
		}
		if number == changesField {
			n++
		}
		message = message[size:]
	}
	return n
}

// dialKubeAPI opens a connection of HTTP/2 for watches at kubeapi.
func dialKubeAPI(i *installation, accept string, read func(io.Reader) stream) (func(context.Context, uint64) (stream, error), error) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return func(ctx context.Context, revision uint64) (stream, error) {
		url := fmt.Sprintf("%s/api/v1/services?watch=1&resourceVersion=%d", i.url, revision)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", accept)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() {
			_ = response.Body.Close()
			transport.CloseIdleConnections()
		})
		if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
			return nil, fmt.Errorf("watch: %s %s", response.Proto, response.Status)
		}
		return read(response.Body), nil
	}, nil
}

// readBytes is the size of the buffer of a watch of kubeapi.
const readBytes = 16 << 10

// readLines reads a watch in JSON. Each line is an event.
func readLines(body io.Reader) stream {
	buffer := make([]byte, readBytes)
	return func() ([]byte, int, error) {
		n, err := body.Read(buffer)
		return buffer[:n], bytes.Count(buffer[:n], []byte{'\n'}), err
	}
}

// readFrames reads a watch in protobuf. Each event follows its length, which has four bytes.
func readFrames(body io.Reader) stream {
	buffer, skip := make([]byte, readBytes), 0
	var length []byte // the part of a length that has arrived
	return func() ([]byte, int, error) {
		n, err := body.Read(buffer)
		events := 0
		for rest := buffer[:n]; len(rest) > 0; {
			if skip > 0 {
				taken := min(skip, len(rest))
				if rest, skip = rest[taken:], skip-taken; skip == 0 {
					events++
				}
				continue
			}
			taken := min(4-len(length), len(rest))
			length, rest = append(length, rest[:taken]...), rest[taken:]
			if len(length) == 4 {
				skip, length = int(binary.BigEndian.Uint32(length)), length[:0]
			}
		}
		return buffer[:n], events, err
	}
}
