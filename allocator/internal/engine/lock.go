package engine

// lock is a mutual exclusion lock. It is held while the store writes, which takes long. A
// simulation in virtual time (testing/synctest) can let time pass while goroutines wait for a
// channel, but not while they wait for a sync.Mutex.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// Lock waits for the lock.
func (l lock) Lock() { l <- struct{}{} }

// Unlock releases the lock.
func (l lock) Unlock() { <-l }
