module portolan.dev/portolan

go 1.26.0

require portolan.dev/proto v0.0.0
require portolan.dev/services v0.0.0
require portolan.dev/registry v0.0.0
require portolan.dev/allocator v0.0.0
require portolan.dev/endpointctl v0.0.0
require portolan.dev/dnssvc v0.0.0
require portolan.dev/nodeagent v0.0.0

replace portolan.dev/proto => ../proto
replace portolan.dev/services => ../services
replace portolan.dev/registry => ../registry
replace portolan.dev/allocator => ../allocator
replace portolan.dev/endpointctl => ../endpointctl
replace portolan.dev/dnssvc => ../dnssvc
replace portolan.dev/nodeagent => ../nodeagent
