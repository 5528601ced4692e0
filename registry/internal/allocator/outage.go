package allocator

import (
	"fmt"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// warnAfter is the time without an answer after which an operator is warned.
const warnAfter = 2 * time.Second

// fail reports that the allocator did not answer a call.
func (r *reserve) fail(err error, now time.Time) {
	r.outage.Failed(err)
	if silent := now.Sub(r.answered); silent >= warnAfter {
		r.health.Warn("allocator", fmt.Errorf("has not answered for %s; %s", silent.Round(time.Second), r.supply()))
	}
}

// supply describes the number of addresses at hand, and how long they last.
func (r *reserve) supply() string {
	count := r.stock.atHand()
	var parts []string
	for _, family := range []struct {
		family corev1.IPFamily
		name   string
	}{{corev1.IPFamily_IP_FAMILY_IPV4, "IPv4"}, {corev1.IPFamily_IP_FAMILY_IPV6, "IPv6"}} {
		if n, known := count[family.family]; known {
			parts = append(parts, fmt.Sprintf("%d %s", n, family.name))
		}
	}
	text := strings.Join(parts, " and ") + " addresses are at hand"
	if len(parts) == 0 {
		text = "no addresses are at hand"
	}
	if lasts, needed := r.stock.lasts(); needed {
		text += fmt.Sprintf(", enough for about %s at the present rate", lasts.Round(time.Second))
	}
	return text
}
