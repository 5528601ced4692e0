package audit

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/linelog"
	"portolan.dev/services/kit/obs"
)

const (
	// maxQueued is the largest number of bytes that wait for the disk or are being written.
	maxQueued = 4 << 20
	// gatherTime is the time for which lines are gathered after the first one, so that one write has
	// many of them. With hurryAt bytes they are written at once.
	gatherTime = 50 * time.Millisecond
	hurryAt    = maxQueued / 4
	// keptBuffer is the largest buffer that is used again, so that a burst does not take memory
	// forever.
	keptBuffer = 64 << 10
	// reportInterval is the interval in which the log records the numbers of missing lines.
	reportInterval = 10 * time.Second
)

// Options are the options of a log. All fields but Reads and Keep are required.
type Options struct {
	// Path is the name of the file, or Stdout.
	Path string
	// MaxBytes is the size in bytes at which the file is rotated.
	MaxBytes int64
	// Keep is the number of rotated files that are kept, as Path.1 (the newest), Path.2 and so on.
	Keep int
	// Reads is set if calls that only read are recorded too.
	Reads bool
	// Daemon is the name of the daemon.
	Daemon  string
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Log is an audit log. Its methods are safe for concurrent use. A nil Log records nothing.
type Log struct {
	out     sink
	origin  origin
	metrics *metrics
	outage  *obs.Outage
	log     *slog.Logger
	reads   bool
	writer  *linelog.Writer

	mu       sync.Mutex
	waiting  []byte // guarded by mu
	lines    int    // number of lines in waiting. Guarded by mu.
	writing  int    // bytes that are being written. Guarded by mu.
	closed   bool   // guarded by mu
	refusals refusals
	missing  [causes]missing // guarded by mu
}

// sink is the destination of lines.
type sink interface {
	// write writes whole lines. If it fails, lost is the number of lines that are not written.
	write(lines []byte) (lost int, err error)
	close() error
}

// cause is the reason for which a line is missing.
type cause int

// The causes.
const (
	queueFull    cause = iota // more lines were waiting than maxQueued allows
	diskFails                 // the line could not be written
	rateExceeded              // one caller was refused too often
	causes
)

// String returns the cause as the log and the metric have it.
func (c cause) String() string { return [causes]string{"queue", "disk", "rate"}[c] }

// missing counts lines that are missing for the same cause.
type missing struct {
	lines int64
	since time.Time // of the first
}

// Open opens the log. It returns an error if the file cannot be opened. Later errors are counted,
// and the log goes on when the disk does.
func Open(o Options) (*Log, error) {
	instance, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("audit-log: the name of this host: %w", err)
	}
	out, err := openSink(o)
	if err != nil {
		return nil, fmt.Errorf("audit-log: %w", err)
	}
	l := &Log{
		out: out, origin: newOrigin(o.Daemon, instance), metrics: newMetrics(o.Metrics), log: o.Log, reads: o.Reads,
		outage: &obs.Outage{Log: o.Log, Down: "the audit log cannot be written: its lines are lost", Up: "the audit log is written again"},
		writer: linelog.NewWriter(gatherTime),
	}
	go l.run()
	return l, nil
}

// Reads reports whether calls that only read are to be recorded. Record does not check it.
func (l *Log) Reads() bool { return l.reads }

// Record adds a line. It never waits for the disk. If the line cannot be kept, it is counted as
// dropped.
func (l *Log) Record(e *Entry) {
	if l == nil {
		return
	}
	if e.Code != ok && !l.mayRefuse(e) {
		return
	}
	buffer, _ := buffers.Get().(*[]byte)
	*buffer = e.append((*buffer)[:0], l.origin)
	l.enqueue(*buffer)
	buffers.Put(buffer)
}

// buffers holds buffers in which lines are built, so that building needs no lock. They stay small,
// because all texts of a line are bounded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// mayRefuse reports whether the rate of the caller of a failed call allows another line. If not, it counts
// the line as dropped.
func (l *Log) mayRefuse(e *Entry) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusals.allow(callerOf(e), now) {
		return true
	}
	l.drop(rateExceeded, 1)
	return false
}

func (l *Log) enqueue(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting)+l.writing+len(line) > maxQueued {
		l.drop(queueFull, 1)
		return
	}
	l.waiting = append(l.waiting, line...)
	l.lines++
	if l.lines == 1 {
		l.writer.Wake()
	}
	if len(l.waiting) >= hurryAt {
		l.writer.Hurry()
	}
}

// drop counts missing lines. The caller holds mu.
func (l *Log) drop(why cause, lines int) {
	m := &l.missing[why]
	if m.lines == 0 {
		m.since = time.Now()
	}
	m.lines += int64(lines)
	l.metrics.dropped[why].Add(float64(lines))
}

// Close writes the lines that wait, for at most 5 seconds, and ends the log. Later lines are
// dropped.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if !l.writer.Close() {
		l.log.Warn("the audit log does not take its last lines", "after", linelog.CloseTimeout)
	}
}

// run writes lines until the log is closed.
func (l *Log) run() {
	report := time.NewTicker(reportInterval)
	defer report.Stop()
	var spare []byte
	l.writer.Run(func() { spare = l.flush(spare) }, report.C, l.report, func() {
		l.report()
		if err := l.out.close(); err != nil {
			l.outage.Failed(err)
		}
	})
}

// flush writes the lines that wait, while others may come. It returns the buffer for the next ones.
func (l *Log) flush(spare []byte) []byte {
	l.mu.Lock()
	full, lines := l.waiting, l.lines
	l.waiting, l.lines, l.writing = spare, 0, len(full)
	l.mu.Unlock()
	if len(full) == 0 {
		return full
	}
	lost := l.write(full)
	l.metrics.lines.Add(float64(lines - lost))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = 0
	if lost > 0 {
		l.drop(diskFails, lost)
	}
	if cap(full) > keptBuffer {
		return nil
	}
	return full[:0]
}

// write writes lines and returns the number of lines that are lost.
func (l *Log) write(lines []byte) (lost int) {
	lost, err := l.out.write(lines)
	if err != nil {
		l.metrics.errors.Inc()
		l.outage.Failed(err)
		return lost
	}
	l.outage.Over()
	return 0
}

// report adds a line for each cause for which lines are missing.
func (l *Log) report() {
	l.mu.Lock()
	all := l.missing
	l.mu.Unlock()
	now := time.Now()
	for why, m := range all {
		if m.lines == 0 {
			continue
		}
		line := Missing{Time: now, Dropped: m.lines, Cause: cause(why).String(), Since: m.since}
		if l.write(line.append(nil, l.origin)) > 0 {
			return // it is tried again
		}
		l.mu.Lock()
		l.missing[why] = missing{lines: l.missing[why].lines - m.lines, since: now}
		l.mu.Unlock()
	}
}
