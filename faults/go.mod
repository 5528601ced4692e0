module portolan.dev/faults

go 1.26.0

replace portolan.dev/proto => ../proto

replace portolan.dev/services => ../services

replace portolan.dev/registry => ../registry

replace portolan.dev/allocator => ../allocator

replace portolan.dev/endpointctl => ../endpointctl

replace portolan.dev/dnssvc => ../dnssvc

replace portolan.dev/nodeagent => ../nodeagent

replace portolan.dev/portolan => ../portolan
