module portolan.dev/nodeagent

go 1.26.0

require portolan.dev/proto v0.0.0
require portolan.dev/services v0.0.0

replace portolan.dev/proto => ../proto
replace portolan.dev/services => ../services
