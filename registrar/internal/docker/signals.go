package docker

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"portolan.dev/registrar/internal/labels"
)

const (
	// defaultStopTimeout is the engine's default for the time between the signal to stop and SIGKILL.
	defaultStopTimeout = 10 * time.Second
	// stopMargin is added to the time to stop. A container that still runs after both has ignored the signal.
	stopMargin = 30 * time.Second
	// longestStop bounds the container's own time to stop, which becomes the drain of its workload.
	longestStop = labels.MaxDrain
)

// signalNames are the names of Linux' signals. The index of a name is the signal's number on every
// architecture that Docker engines run on.
var signalNames = strings.Fields("- HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")

const (
	realTimeMin, realTimeMax = 34, 64
	terminate                = 15
)

// endings are the signals that end a program. Other signals, such as HUP, mostly make a program read its
// configuration again.
var endings = []int{2, 3, 6, 9, terminate} // INT, QUIT, ABRT, KILL, TERM

// signalNumber returns the number of a signal such as "15", "SIGTERM", "term" or "SIGRTMIN+3", or 0.
func signalNumber(text string) int {
	name := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "SIG")
	base, number := 0, name
	if offset, found := strings.CutPrefix(name, "RTMIN"); found {
		base, number = realTimeMin, strings.TrimPrefix(offset, "+")
	} else if offset, found := strings.CutPrefix(name, "RTMAX"); found {
		base, number = realTimeMax, offset // a negative offset
	}
	if base != 0 && number == "" {
		return base
	}
	if n, err := strconv.Atoi(number); err == nil {
		if n += base; n > 0 && n <= realTimeMax {
			return n
		}
		return 0
	}
	return max(0, slices.Index(signalNames, name))
}

// stopSignal returns the signal by which the engine asks the container to stop.
func (c *container) stopSignal() int {
	if signal := signalNumber(c.Config.StopSignal); signal != 0 {
		return signal
	}
	return terminate
}

// stopTimeout returns the container's own time to stop, or zero if it has none.
func (c *container) stopTimeout() time.Duration {
	if c.Config.StopTimeout == nil || *c.Config.StopTimeout <= 0 {
		return 0
	}
	return time.Duration(min(*c.Config.StopTimeout, int(longestStop/time.Second))) * time.Second
}

// stopsUntil returns the time until which the container counts as terminating. It is the zero time if the
// container was not sent a signal that ends it since its start.
func (s signals) stopsUntil(c *container, drain time.Duration) time.Time {
	var last time.Time
	for signal, at := range s[c.ID] {
		asked := signal == c.stopSignal() || slices.Contains(endings, signal)
		if asked && !at.Before(c.State.StartedAt) && at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return last
	}
	timeout := c.stopTimeout()
	if timeout == 0 {
		timeout = defaultStopTimeout
	}
	return last.Add(max(timeout, drain) + stopMargin)
}
