module portolan.dev/nodeagent

go 1.26.0

require portolan.dev/proto v0.0.0

require portolan.dev/services v0.0.0

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace portolan.dev/proto => ../proto

replace portolan.dev/services => ../services
