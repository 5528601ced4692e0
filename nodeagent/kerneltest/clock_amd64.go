package kerneltest

import "time"

// ticks reads the processor's time-stamp counter, which is also the guest's clock.
func ticks() int64

// clockRate measures the frequency of the counter in kHz.
func clockRate() int {
	began, from := time.Now(), ticks()
	time.Sleep(50 * time.Millisecond)
	to, took := ticks(), time.Since(began)
	return int(float64(to-from) / took.Seconds() / 1000)
}
