package web

import (
	"net/http"
	"sync/atomic"
	"time"
)

// date is the value of a Date field for one second.
type date struct {
	second int64
	value  []byte
}

var lastDate atomic.Pointer[date]

// dateAt returns the value of a Date field. It formats each second once.
func dateAt(now time.Time) []byte {
	second := now.Unix()
	d := lastDate.Load()
	if d == nil || d.second != second {
		d = &date{second, now.UTC().AppendFormat(nil, http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.value
}
