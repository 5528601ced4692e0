package netfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// acknowledgement is the kernel's answer to a message that succeeded.
var acknowledgement = []netlink.Message{{Header: netlink.Header{Type: netlink.Error}, Data: make([]byte, 4)}}

// exchange sends the messages of a transaction and receives their answers. The library calls it
// once with all messages, and then without messages to receive each answer.
func (c *Conn) exchange(messages []netlink.Message) ([]netlink.Message, error) {
	if len(messages) == 0 {
		return acknowledgement, nil
	}
	for i := range messages {
		m := &messages[i]
		m.Header.Length, m.Header.PID = 0, 0 // for the socket to fill in
		switch m.Header.Type {
		case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSET:
			m.Data = withByteOrder(m.Data)
		case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE:
			nameFamily(m.Data)
		}
	}
	if _, err := c.sock.SendMessages(messages); err != nil {
		return nil, err
	}
	waiting := 0
	for i := range messages {
		if messages[i].Header.Flags&netlink.Acknowledge != 0 {
			waiting++
		}
	}
	return nil, c.receive(waiting)
}

// receive receives a number of acknowledgements and skips the copies of new objects between them.
func (c *Conn) receive(waiting int) error {
	var errs []error
	for waiting > 0 {
		answers, err := c.sock.Receive()
		switch {
		case errors.Is(err, os.ErrPermission), errors.Is(err, unix.ENOBUFS), errors.Is(err, os.ErrDeadlineExceeded):
			return err // there are no more answers
		case err != nil:
			errs = append(errs, err)
			waiting--
		}
		for _, a := range answers {
			if a.Header.Type == netlink.Error {
				waiting--
			}
		}
	}
	return errors.Join(errs...)
}

// withByteOrder completes the message that makes a set, so that nft prints the set's values as
// they are. nft expects a note in the message if the values are integers of the machine's byte
// order. The library can only write the note about keys.
func withByteOrder(message []byte) []byte {
	const native = 1
	data := Attribute(message[4:], unix.NFTA_SET_DATA_TYPE)
	if len(data) != 4 || binary.BigEndian.Uint32(data) != nftables.TypeClassID.GetNFTMagic() {
		return message
	}
	note := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_DATABYTEORDER, native)
	attributes, _ := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_SET_USERDATA, Data: note}}) // short enough
	return append(bytes.Clone(message), attributes...)
}

// The keys of addresses of a connection that name their family. The library cannot write them.
const (
	destinationIP4 = 20 // NFT_CT_DST_IP
	destinationIP6 = 22 // NFT_CT_DST_IP6
)

// nameFamily changes the message that makes a rule, so that each destination address of a connection
// in it names its family. nft can write only this key, and nft 1.0.6 aborts when it reads the other
// one, which the library writes.
func nameFamily(message []byte) {
	key := map[byte]uint32{unix.NFPROTO_IPV4: destinationIP4, unix.NFPROTO_IPV6: destinationIP6}[message[0]]
	if key == 0 {
		return
	}
	for _, e := range Attributes(Attribute(message[4:], unix.NFTA_RULE_EXPRESSIONS)) {
		if Text(Attribute(e, unix.NFTA_EXPR_NAME)) != "ct" {
			continue
		}
		if b := Attribute(Attribute(e, unix.NFTA_EXPR_DATA), unix.NFTA_CT_KEY); len(b) == 4 && binary.BigEndian.Uint32(b) == unix.NFT_CT_DST {
			binary.BigEndian.PutUint32(b, key)
		}
	}
}
