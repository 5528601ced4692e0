module portolan.dev/dnssvc

go 1.26.0

require portolan.dev/proto v0.0.0

require portolan.dev/services v0.0.0

require (
	github.com/miekg/dns v1.1.73 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace portolan.dev/proto => ../proto

replace portolan.dev/services => ../services
