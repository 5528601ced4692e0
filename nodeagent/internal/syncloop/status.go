package syncloop

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// FillStatus adds the syncer's status.
func (s *Syncer) FillStatus(res *nodeagentv1.GetStatusResponse) {
	res.QueueAgeSeconds = s.QueueAge().Seconds()
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	servers, reals := s.table.Counts()
	res.VirtualServers, res.RealServers = uint32(servers), uint32(reals)
	res.AppliedRevision = s.applied
	res.Failures = append(s.failing.proto(), s.others.list(true)...)
	slices.SortFunc(res.Failures, func(a, b *nodeagentv1.StepFailure) int { return cmp.Compare(a.GetStep(), b.GetStep()) })
	res.DriftRepaired = s.repaired
	if !s.lastAudit.IsZero() {
		res.LastAudit = timestamppb.New(s.lastAudit)
	}
}
