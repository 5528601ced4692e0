package accesslog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/linelog"
	"portolan.dev/services/kit/obs"
)

const (
	// gatherTime is the time for which lines are gathered after the first line, so that one write has many
	// lines.
	gatherTime = 500 * time.Millisecond
	// recoveredAfter is the time without dropped lines after which the disk counts as fast enough again.
	recoveredAfter = 10 * time.Second
	// maxNode is the longest name of a node. With the longest namespace and service it makes the longest
	// name of a file, which may have 255 bytes.
	maxNode = 100
)

// Options are the options of the logs of an edge. All fields are required.
type Options struct {
	// Dir is the base directory. It must exist.
	Dir string
	// Node is the name of the edge's node. All names of files contain it, because several edges may write to
	// the same directory.
	Node    string
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Logs has the access logs of all services of an edge, and the goroutine that writes them. Its
// methods are safe for concurrent use.
type Logs struct {
	root    *os.Root
	node    string
	metrics *metrics
	disk    *obs.Outage // the files cannot be written
	full    *obs.Outage // lines come faster than the disk takes them
	log     *slog.Logger
	bytes   atomic.Int64 // waiting or being written, of all logs
	dropped atomic.Int64 // the last time at which too many lines waited, in nanoseconds of Unix
	writer  *linelog.Writer

	mu    sync.Mutex
	queue []*Log // logs with waiting lines, and closed ones. Guarded by mu.

	open map[*Log]bool // logs with an open file. Only the writer uses it.
}

// New starts the writer. It returns an error if the base directory cannot be opened.
func New(o Options) (*Logs, error) {
	l, err := newLogs(o)
	if err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

func newLogs(o Options) (*Logs, error) {
	if len(o.Node) > maxNode {
		return nil, fmt.Errorf("access logs: the name of the node is longer than %d bytes", maxNode)
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	return &Logs{
		root: root, node: o.Node, metrics: newMetrics(o.Metrics), log: o.Log, open: map[*Log]bool{},
		disk:   &obs.Outage{Log: o.Log, Down: "access logs cannot be written: lines are lost", Up: "access logs are written again"},
		full:   &obs.Outage{Log: o.Log, Down: "access logs come faster than the disk takes them: lines are lost", Up: "the disk takes all lines of access logs again"},
		writer: linelog.NewWriter(gatherTime),
	}, nil
}

// Open returns the log of a service. It returns an error if the directory or the prefix is not the
// name of a folder below the base directory. Errors of the disk are counted and logged later.
func (l *Logs) Open(t Target) (*Log, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return &Log{logs: l, target: t, name: t.balancer(), json: newJSONFrame(&t)}, nil
}

// reserve takes room for waiting bytes and reports whether there was enough.
func (l *Logs) reserve(bytes int) bool {
	if l.bytes.Add(int64(bytes)) <= maxWaitingTotal {
		return true
	}
	l.release(bytes)
	return false
}

func (l *Logs) release(bytes int) { l.bytes.Add(int64(-bytes)) }

// queueFull counts a line that is dropped because too many wait.
func (l *Logs) queueFull() {
	l.metrics.dropped[causeQueue].Inc()
	l.dropped.Store(time.Now().UnixNano())
	l.full.Failed(errQueueFull)
}

var errQueueFull = errors.New("too many lines wait")

// enqueue adds a log to the writer's queue.
func (l *Logs) enqueue(log *Log) {
	l.mu.Lock()
	l.queue = append(l.queue, log)
	l.mu.Unlock()
	l.writer.Wake()
}

// Close writes the lines that wait and gives all files their final names. It waits for at most 5
// seconds. Lines that are recorded later are lost.
func (l *Logs) Close() {
	if !l.writer.Close() {
		l.log.Warn("the disk does not take the last lines of access logs", "after", linelog.CloseTimeout)
	}
}

// run writes lines until the logs are closed.
func (l *Logs) run() {
	l.finishLeftovers()
	ended := time.NewTimer(time.Hour)
	defer ended.Stop()
	finishEnded := func() {
		now := time.Now()
		l.finish(func(f *file) bool { return !now.Before(f.end) })
		ended.Reset(l.untilEnd(now))
	}
	l.writer.Run(func() { l.flush(); finishEnded() }, ended.C, finishEnded, func() {
		l.finish(func(*file) bool { return true })
		_ = l.root.Close()
	})
}

// flush writes the waiting lines of the logs in the queue.
func (l *Logs) flush() {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, log := range queue {
		waiting, closed := log.take()
		for _, c := range waiting {
			l.write(log, c)
			log.release(c)
		}
		if closed {
			l.finishFile(log)
		}
	}
	if time.Now().UnixNano()-l.dropped.Load() > int64(recoveredAfter) {
		l.full.Over()
	}
}

// write writes the lines of one interval.
func (l *Logs) write(log *Log, c chunk) {
	if log.file != nil && !log.file.start.Equal(c.start) {
		l.finishFile(log)
	}
	if log.file == nil {
		f, err := createFile(l.root, &log.target, l.node, c.start)
		if err != nil {
			l.lost(c.lines, err)
			return
		}
		log.file = f
		l.open[log] = true
	}
	lost, err := log.file.append(c.text)
	l.metrics.lines.Add(float64(c.lines - lost))
	if err != nil {
		l.lost(lost, err)
		return
	}
	l.disk.Over()
}

// lost counts lines that could not be written.
func (l *Logs) lost(lines int, err error) {
	l.metrics.dropped[causeDisk].Add(float64(lines))
	l.disk.Failed(err)
}

// finish gives the due files their final names.
func (l *Logs) finish(due func(*file) bool) {
	for log := range l.open {
		if due(log.file) {
			l.finishFile(log)
		}
	}
}

func (l *Logs) finishFile(log *Log) {
	if log.file == nil {
		return
	}
	if err := log.file.finish(l.root); err != nil {
		l.log.Warn("a finished access log keeps its name", "file", log.file.stem+partEnd, "err", err)
	}
	log.file = nil
	delete(l.open, log)
}

// untilEnd returns the time until the end of the first interval of an open file.
func (l *Logs) untilEnd(now time.Time) time.Duration {
	wait := time.Hour
	for log := range l.open {
		wait = min(wait, log.file.end.Sub(now))
	}
	return max(wait, 0)
}
