package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Limits of a call of Reserve.
const (
	maxWished   = 4096
	maxSettled  = 1000
	maxReturned = 5000
)

// Leases reads the Leases by which the holders of reserves fence their commits.
type Leases interface {
	// Get returns an object, or nil if it does not exist.
	Get(ctx context.Context, key object.Key) (object.Object, error)
}

// Reserve implements AllocatorService.
func (s *Server) Reserve(ctx context.Context, req *allocatorv1.ReserveRequest) (*allocatorv1.ReserveResponse, error) {
	read, err := readReserve(req)
	if err != nil {
		return nil, err
	}
	epoch, err := s.waitUntilAdopted(ctx)
	if err != nil {
		return nil, err
	}
	res, err := s.engine.Reserve(ctx, read)
	if errors.Is(err, allocation.ErrNoReserve) {
		res, err = s.beginReserve(ctx, read)
	}
	if errors.Is(err, allocation.ErrOvertaken) {
		return nil, status.Error(codes.Aborted, "a later call of this reserve was served before")
	}
	if err != nil {
		return nil, err
	}
	return writeReserve(res, epoch), nil
}

// beginReserve makes a reserve if its Lease exists. If not, the reserve was closed.
func (s *Server) beginReserve(ctx context.Context, req allocation.ReserveRequest) (allocation.ReserveResult, error) {
	lease, err := s.leases.Get(ctx, object.Key{Kind: "Lease", Namespace: object.DefaultNamespace, Name: req.Holder})
	switch {
	case err != nil:
		return allocation.ReserveResult{}, apierr.Unavailable("the registry does not say whether the reserve's Lease exists: "+apierr.Describe(err), time.Second)
	case lease == nil:
		return allocation.ReserveResult{}, apierr.FailedPrecondition(fmt.Sprintf("reserve %q is closed: its values may not be used any more; begin a new one", req.Holder))
	}
	req.Begin = true
	return s.engine.Reserve(ctx, req)
}

func readReserve(req *allocatorv1.ReserveRequest) (allocation.ReserveRequest, error) {
	var v apierr.Violations
	read := allocation.ReserveRequest{Holder: req.GetHolder(), Call: req.GetCall(), Received: req.GetReceived(), Close: req.GetClose()}
	checkHolder(req.GetHolder(), &v)
	if read.Received > read.Call {
		v.Add("received", apierr.ReasonInvalid, "grant %d is later than call %d", read.Received, read.Call)
	}
	if n := len(req.GetSettled()); n > maxSettled {
		v.Add("settled", apierr.ReasonTooLong, "%d settlements; at most %d", n, maxSettled)
	}
	if n := len(req.GetReturned()); n > maxReturned {
		v.Add("returned", apierr.ReasonTooLong, "%d values; at most %d", n, maxReturned)
	}
	if len(v) == 0 {
		read.Wishes = readWishes(req.GetWishes(), &v)
		read.Settled = readSettlements(req.GetSettled(), &v)
		for i, r := range req.GetReturned() {
			read.Returned = append(read.Returned, readReserved(fmt.Sprintf("returned[%d]", i), r.GetValue(), r.GetGrant(), &v))
		}
	}
	if len(v) > 0 {
		return read, apierr.Invalid("ReserveRequest", req.GetHolder(), v)
	}
	return read, nil
}

func checkHolder(holder string, v *apierr.Violations) {
	checkText("holder", holder, v)
	if !strings.HasPrefix(holder, spec.ReserveLeasePrefix) {
		v.Add("holder", apierr.ReasonInvalid, "%q does not begin with %s", holder, spec.ReserveLeasePrefix)
	}
}

func readWishes(wishes []*allocatorv1.ReserveWish, v *apierr.Violations) []allocation.ReserveCount {
	var read []allocation.ReserveCount
	seen := map[corev1.IPFamily]bool{}
	for i, w := range wishes {
		path := fmt.Sprintf("wishes[%d]", i)
		if w.GetUse() != allocatorv1.Use_USE_CLUSTER_IP {
			v.Add(path+".use", apierr.ReasonNotSupported, "only cluster IPs are reserved")
		}
		family := w.GetFamily()
		if family != corev1.IPFamily_IP_FAMILY_IPV4 && family != corev1.IPFamily_IP_FAMILY_IPV6 {
			v.Add(path+".family", apierr.ReasonRequired, "family is required: IPv4 or IPv6")
		}
		if seen[family] {
			v.Add(path+".family", apierr.ReasonInvalid, "there is another wish of this family")
			return read
		}
		seen[family] = true
		if w.GetCount() > maxWished {
			v.Add(path+".count", apierr.ReasonInvalid, "%d values; at most %d", w.GetCount(), maxWished)
		}
		read = append(read, allocation.ReserveCount{Family: family, Count: uint64(w.GetCount())})
	}
	return read
}

func readSettlements(settled []*allocatorv1.Settlement, v *apierr.Violations) []allocation.Settlement {
	read := make([]allocation.Settlement, len(settled))
	for i, s := range settled {
		path := fmt.Sprintf("settled[%d]", i)
		o := readOwner(path+".owner", s.GetOwner(), v)
		if o.UID == "" {
			v.Add(path+".owner.uid", apierr.ReasonRequired, "uid is required")
		}
		if s.GetSlot() == "" {
			v.Add(path+".slot", apierr.ReasonRequired, "slot is required")
		}
		checkText(path+".slot", s.GetSlot(), v)
		read[i] = allocation.Settlement{
			ReservedValue: readReserved(path, s.GetValue(), s.GetGrant(), v), Owner: o, Slot: s.GetSlot(), Confirmed: s.GetConfirmed(),
		}
	}
	return read
}

func readReserved(path, text string, grant uint64, v *apierr.Violations) allocation.ReservedValue {
	value, err := pool.ParseAddr(text)
	if err != nil {
		v.Add(path+".value", apierr.ReasonInvalid, "%v", err)
	}
	if grant == 0 {
		v.Add(path+".grant", apierr.ReasonRequired, "grant is required")
	}
	return allocation.ReservedValue{Value: value, Grant: grant}
}

// readOwner reads an owner. Its kind must not be the kind of the owners of values in reserves.
func readOwner(path string, o *allocatorv1.Owner, v *apierr.Violations) store.Owner {
	checkText(path+".uid", o.GetUid(), v)
	checkText(path+".kind", o.GetKind(), v)
	checkText(path+".namespace", o.GetNamespace(), v)
	checkText(path+".name", o.GetName(), v)
	if o.GetKind() == store.KindReserve {
		v.Add(path+".kind", apierr.ReasonNotSupported, "kind %s is for values at hand", store.KindReserve)
	}
	return store.Owner{UID: o.GetUid(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func writeReserve(res allocation.ReserveResult, epoch string) *allocatorv1.ReserveResponse {
	resp := &allocatorv1.ReserveResponse{
		Granted: writeReserved(res.Granted), Recalled: writeReserved(res.Recalled), LogEpoch: epoch,
		Lease: durationpb.New(allocation.Lease), Ignored: uint32(res.Ignored),
	}
	for _, l := range res.Limits {
		resp.Limits = append(resp.Limits, &allocatorv1.ReserveLimit{Family: l.Family, Count: uint32(min(l.Count, maxWished))})
	}
	return resp
}

func writeReserved(values []allocation.ReservedValue) []*allocatorv1.ReservedValue {
	written := make([]*allocatorv1.ReservedValue, len(values))
	for i, r := range values {
		family := corev1.IPFamily_IP_FAMILY_IPV6
		if r.Value.Addr().Is4() {
			family = corev1.IPFamily_IP_FAMILY_IPV4
		}
		written[i] = &allocatorv1.ReservedValue{Value: r.Value.String(), Grant: r.Grant, Family: family}
	}
	return written
}
