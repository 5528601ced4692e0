package lab

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
)

// filterRules are the rules of the hub's packet filter. They drop a packet that is forwarded from
// one machine to another if the pair of addresses is in the set cut, and at random if it is in the
// set lossy. The tests run on the hub, so packets of the tests are not forwarded and never dropped.
const filterRules = `table inet nemesis {
	set cut4 { type ipv4_addr . ipv4_addr; }
	set cut6 { type ipv6_addr . ipv6_addr; }
	set lossy4 { type ipv4_addr . ipv4_addr; }
	set lossy6 { type ipv6_addr . ipv6_addr; }
	chain forward {
		type filter hook forward priority -300; policy accept;
		ip saddr . ip daddr @cut4 drop
		ip6 saddr . ip6 daddr @cut6 drop
		ip saddr . ip daddr @lossy4 numgen random mod 100 < %[1]d drop
		ip6 saddr . ip6 daddr @lossy6 numgen random mod 100 < %[1]d drop
	}
}
`

// lossPercent is the percentage of packets that a lossy path drops. TCP still works with this loss,
// but barely.
const lossPercent = 20

// nft runs nftables commands on the hub.
func (l *Lab) nft(commands string) error {
	return l.Network.Hub.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(commands)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w\n%s%s", err, commands, out)
		}
		return nil
	})
}

// changeSet adds or deletes the elements of a pair of machines. The verb is "add" or "delete".
func (l *Lab) changeSet(verb, set string, from, to *Machine) error {
	return l.nft(fmt.Sprintf("%[1]s element inet nemesis %[2]s4 { %[3]s . %[4]s }\n%[1]s element inet nemesis %[2]s6 { %[5]s . %[6]s }\n",
		verb, set, from.Addresses[0], to.Addresses[0], from.Addresses[1], to.Addresses[1]))
}

// impairment is a fault of the path from one machine to another. The path is an element of the set
// while the fault lasts.
type impairment struct {
	set      string
	from, to *Machine
}

// impair begins an impairment. Calls with the same impairment are counted, because faults may
// overlap.
func (l *Lab) impair(p impairment) error {
	l.impairments[p]++
	if l.impairments[p] > 1 {
		return nil
	}
	return l.changeSet("add", p.set, p.from, p.to)
}

// endImpairment undoes one call of impair. When all calls are undone, it removes the path from the
// set.
func (l *Lab) endImpairment(p impairment) error {
	l.impairments[p]--
	if l.impairments[p] > 0 {
		return nil
	}
	return l.changeSet("delete", p.set, p.from, p.to)
}

// Cut makes the hub drop all packets from one machine to another.
func (l *Lab) Cut(from, to *Machine) error { return l.impair(impairment{"cut", from, to}) }

// EndCut undoes one call of Cut.
func (l *Lab) EndCut(from, to *Machine) error { return l.endImpairment(impairment{"cut", from, to}) }

// Lose makes the hub drop lossPercent of the packets from one machine to another.
func (l *Lab) Lose(from, to *Machine) error { return l.impair(impairment{"lossy", from, to}) }

// EndLoss undoes one call of Lose.
func (l *Lab) EndLoss(from, to *Machine) error { return l.endImpairment(impairment{"lossy", from, to}) }

// The parameters of a throttled path.
const (
	throttledRate  = 256 << 10         // bytes per second
	throttledQueue = throttledRate / 2 // bytes; half a second of packets
	throttledBurst = 64 << 10          // bytes; one packet before segmentation
)

// Throttle limits the rate of packets to a machine. Packets above the rate wait in a queue, and are
// dropped if the queue is full.
func (l *Lab) Throttle(to *Machine) error {
	return l.Network.Hub.Do(func() error {
		link, err := netlink.LinkByName(to.Name)
		if err != nil {
			return err
		}
		return netlink.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       throttledRate, Limit: throttledQueue, Buffer: netlink.Xmittime(throttledRate, throttledBurst),
		})
	})
}

// EndThrottle undoes Throttle.
func (l *Lab) EndThrottle(to *Machine) error {
	return l.Network.Hub.Do(func() error {
		link, err := netlink.LinkByName(to.Name)
		if err != nil {
			return err
		}
		qdiscs, err := netlink.QdiscList(link)
		if err != nil {
			return err
		}
		for _, q := range qdiscs {
			if q.Type() == "tbf" {
				return netlink.QdiscDel(q)
			}
		}
		return nil
	})
}
