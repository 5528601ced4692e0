package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"portolan.dev/faults/history"
)

// maxLineLength is the maximum length in bytes of a line of a daemon's log.
const maxLineLength = 1 << 20

// RecordLog records the log lines of a daemon until r ends. A line without a time gets the time at
// which it is read.
func RecordLog(recorder *history.Recorder, process string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineLength)
	for lines.Scan() {
		var entry struct{ Time time.Time }
		if json.Unmarshal(lines.Bytes(), &entry) != nil || entry.Time.IsZero() {
			entry.Time = time.Now()
		}
		recorder.AddLogLine(history.LogLine{Process: process, At: entry.Time, Text: lines.Text()})
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("log of %s: %w", process, err)
	}
	return nil
}
