package lease

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
)

// fenceHeader is the metadata key that ties a write to a lease.
const fenceHeader = "portolan-fence"

// Fence returns a context for writes that the registry refuses unless the lease has this epoch.
func Fence(ctx context.Context, namespace, name string, epoch uint64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, fenceHeader, fmt.Sprintf("%s/%s=%d", namespace, name, epoch))
}
