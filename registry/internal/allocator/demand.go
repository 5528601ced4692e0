package allocator

import (
	"math"
	"time"
)

const (
	// wantedFor is the time for which the values at hand should last at the present rate. It is long
	// compared with a call to the allocator, which fetches more.
	wantedFor = 2 * time.Second
	// leastWanted and mostWanted limit the number of values of one family at hand.
	leastWanted = 16
	mostWanted  = 1024
	// measuredFor is the least time over which a rate is measured.
	measuredFor = 100 * time.Millisecond
	// rateHalves is the time after which a rate without demand has halved.
	rateHalves = 10 * time.Second
)

// demand estimates how many values of a family are needed per second. The estimate rises at once, so
// that a burst is served, and falls slowly, so that values are not given back between two bursts.
type demand struct {
	count int       // values that were needed since the last measurement
	since time.Time // the last measurement
	rate  float64   // values per second for which the stock is kept
	mean  float64   // mean number of values per second of about the last ten seconds
}

// measure updates the rate.
func (d *demand) measure(now time.Time) {
	elapsed := now.Sub(d.since)
	if elapsed < measuredFor {
		return
	}
	kept := math.Exp2(-elapsed.Seconds() / rateHalves.Seconds()) // share of the former rate
	latest := float64(d.count) / elapsed.Seconds()
	d.rate = max(d.rate*kept, latest)
	d.mean = d.mean*kept + latest*(1-kept)
	d.count, d.since = 0, now
}

// wanted returns how many values should be at hand.
func (d *demand) wanted() int {
	return min(max(int(math.Ceil(d.rate*wantedFor.Seconds())), leastWanted), mostWanted)
}
