package wake_test

import (
	"testing"

	"portolan.dev/services/kit/wake"
)

func TestSignalsBeforeTheReceiverAreOne(t *testing.T) {
	s := wake.New()
	for range 3 {
		s.Send()
	}
	<-s
	select {
	case <-s:
		t.Error("a second signal was received")
	default:
	}
}
