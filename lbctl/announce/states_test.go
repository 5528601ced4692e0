package announce

import (
	"reflect"
	"testing"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

func TestParseStates(t *testing.T) {
	tests := map[string]struct {
		request *loadbalancerv1.AnnounceRequest
		want    State
	}{
		"an agent of an earlier release": {
			&loadbalancerv1.AnnounceRequest{Ready: true, Draining: true, Restarting: true, ForwardsAlone: true, AwaitsProxy: true},
			State{Ready: true, Draining: true, Restarting: true, Stays: true, AwaitsProxy: true},
		},
		"an agent that sends only states": {
			&loadbalancerv1.AnnounceRequest{States: []loadbalancerv1.AnnounceState{
				loadbalancerv1.AnnounceState_ANNOUNCE_STATE_AWAITS_PROXY, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY,
				loadbalancerv1.AnnounceState_ANNOUNCE_STATE_FORWARDS_ALONE, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_RESTARTING,
				loadbalancerv1.AnnounceState_ANNOUNCE_STATE_DRAINING,
			}},
			State{Ready: true, Draining: true, Restarting: true, Stays: true, AwaitsProxy: true},
		},
		"states come before the earlier fields": {
			&loadbalancerv1.AnnounceRequest{Draining: true, States: []loadbalancerv1.AnnounceState{loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY}},
			State{Ready: true},
		},
		"an unknown state": {
			&loadbalancerv1.AnnounceRequest{States: []loadbalancerv1.AnnounceState{loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY, 99}},
			State{Ready: true},
		},
		"no state": {&loadbalancerv1.AnnounceRequest{}, State{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parseStates(tt.request); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
